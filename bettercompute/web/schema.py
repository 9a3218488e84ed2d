"""Says on the method what a route takes and answers; the OpenAPI document is made from it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import BaseModel

from bettercompute import errors
from bettercompute.web import problems, queries

Method = TypeVar("Method", bound=Callable[..., Any])

#: Every route may answer these.
_ALWAYS = (
    errors.InvalidInput,
    errors.Unauthenticated,
    errors.AccessDenied,
    errors.NotFound,
    errors.NotAcceptable,
    errors.RateLimited,
    errors.Internal,
    errors.Unavailable,
)
_WITH_BODY = (errors.LengthRequired, errors.PayloadTooLarge, errors.UnsupportedMediaType)


def describe(
    *,
    answers: Mapping[Any, Any],
    body: type[BaseModel] | None = None,
    query: type[BaseModel] | None = None,
    raises: Sequence[type[errors.ApiError]] = (),
    if_match: bool = False,
    keyed: bool = False,
    summary: str | None = None,
    operation: str | None = None,
    tag: str | None = None,
) -> Callable[[Method], Method]:
    """Document a method, and declare its query parameters: only these are let in."""
    codes = [*_ALWAYS, *(_WITH_BODY if body else ()), *raises]
    if if_match:
        codes.append(errors.PreconditionFailed)
    responses: dict[Any, Any] = dict(answers)
    for status in sorted({code.status for code in codes}):
        responses[status, problems.MEDIA_TYPE] = _refusal(codes, status)
    parameters: list[Any] = [] if query is None else list(_parameters(query))
    if if_match:
        parameters.append(_IF_MATCH)
    if keyed:
        parameters.append(_IDEMPOTENCY_KEY)

    def decorate(method: Method) -> Method:
        documented = extend_schema(
            request=body,
            responses=responses,
            parameters=parameters,
            operation_id=operation,
            summary=summary or _first_line(method),
            tags=[tag] if tag else None,
        )(method)
        documented.query_model = query  # type: ignore[attr-defined]  # ApiView reads it
        return documented

    return decorate


_IF_MATCH = OpenApiParameter(
    name="If-Match",
    location=OpenApiParameter.HEADER,
    required=False,
    type=str,
    description="The version this is meant for, as the ETag of a get; `*` or none for any.",
)


_IDEMPOTENCY_KEY = OpenApiParameter(
    name="Idempotency-Key",
    location=OpenApiParameter.HEADER,
    required=False,
    type=str,
    description="In place of the body's `idempotencyKey`; both, where they are the same.",
)


def _parameters(model: type[BaseModel]) -> list[OpenApiParameter]:
    properties = model.model_json_schema(by_alias=True)
    definitions = properties.get("$defs", {})
    required = set(properties.get("required", []))
    found = []
    for name in queries.parameters(model):
        schema = _resolved(properties["properties"][name], definitions)
        found.append(
            OpenApiParameter(
                name=name,
                location=OpenApiParameter.QUERY,
                required=name in required,
                type={key: value for key, value in schema.items() if key != "title"},
                description=schema.get("description", ""),
                explode=True,
            )
        )
    return found


def _resolved(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter's schema without references, and without the null a query cannot say."""
    if "$ref" in schema:
        return _resolved(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        branches = [branch for branch in schema["anyOf"] if branch.get("type") != "null"]
        rest = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
        if len(branches) == 1:
            return rest | _resolved(branches[0], definitions)
        return rest | {"anyOf": [_resolved(branch, definitions) for branch in branches]}
    if "items" in schema:
        return schema | {"items": _resolved(schema["items"], definitions)}
    return schema


def _refusal(codes: Sequence[type[errors.ApiError]], status: int) -> OpenApiResponse:
    """A problem with one of the codes that a route has for a status, and no other."""
    found = sorted({code.code for code in codes if code.status == status})
    return OpenApiResponse(
        {
            "allOf": [
                {"$ref": "#/components/schemas/Problem"},
                {"properties": {"code": {"enum": found}, "status": {"const": status}}},
            ]
        },
        description=", ".join(f"`{code}`" for code in found),
    )


def _first_line(method: Callable[..., Any]) -> str:
    return (method.__doc__ or "").strip().partition("\n")[0].rstrip(".")
