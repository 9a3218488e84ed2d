"""JSON that operators type: within the bounds of a body of the API, and said where it breaks."""

from typing import Any

from django import forms
from django.forms.fields import InvalidJSONInput, JSONString

from bettercompute import jsontext
from bettercompute.errors import InvalidInput


class DocumentField(forms.JSONField):
    """Django's, which takes any depth, any number, and characters that no column can hold."""

    def to_python(self, value: Any) -> Any:
        """What it says.

        Raises:
            forms.ValidationError: it is no JSON, or JSON that we refuse.
        """
        if self.disabled or not isinstance(value, str) or isinstance(value, JSONString):
            return super().to_python(value)
        if value in self.empty_values:
            return None
        try:
            found = _load(value)
        except InvalidInput as error:
            said = "; ".join(each["message"] for each in error.details["errors"])
            raise forms.ValidationError(f"{said[:1].upper()}{said[1:]}.") from error
        return JSONString(found) if isinstance(found, str) else found

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What the form shows again: as typed where it is refused."""
        if self.disabled or data is None:
            return super().bound_data(data, initial)
        try:
            return _load(data)
        except InvalidInput:
            return InvalidJSONInput(data)


def _load(text: str) -> Any:
    return jsontext.load(text.encode("utf-8", "surrogatepass"))
