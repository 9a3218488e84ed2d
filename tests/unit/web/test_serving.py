"""What a request is called in metrics and logs."""

import pytest

from bettercompute.web import serving


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("api/v1/pools/<str:pool_id>/timeline", "/api/v1/pools/{pool_id}/timeline"),
        ("admin/iam/account/<path:object_id>/change/", "/admin/iam/account/{object_id}/change/"),
        ("feeds/<slug:address>.ics", "/feeds/{address}.ics"),
        ("<name>", "/{name}"),
        ("", "/"),
    ],
)
def test_a_route_is_written_as_a_template(route: str, path: str) -> None:
    assert serving.template(route) == path
