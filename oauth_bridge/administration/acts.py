"""Acts of administrators on an application, a secret or a person, and the page that asks before an act is performed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from accounts import rights
from accounts.rights import LastAdministrator
from accounts.sign_in.reauthentication import proof_first
from oauth_bridge.administration.shown import Named

Answers = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act(Generic[T]):
    """An act on an object. `question` and `done`, the sentence about the result, contain %(name)s.

    `ends`: the text below the question, or a function that returns the text. `shows`: an address that the question is
    about; `warnings`: sentences about this address. `fits` returns whether the act would change something. `change`
    performs the act. Its result is a response, or a sentence that replaces `done`. It may raise ValidationError.
    `is_proven`: administrators prove their identity before. `initial` returns the initial values of the form.
    """

    label: Any
    question: Any
    ends: Any
    change: Callable[[HttpRequest, T, Answers], str | HttpResponseBase | None]
    done: Any = ""
    permission: str = ""
    button: Any = ""
    shows: str = ""
    warnings: tuple[str, ...] = ()
    fits: Callable[[T], bool] = lambda _found: True
    is_proven: bool = False
    form: type[forms.Form] = forms.Form
    initial: Callable[[T], Answers] = lambda _found: {}

    def what_ends(self, found: T) -> Any:
        return self.ends(found) if callable(self.ends) else self.ends


def offered(acts: dict[str, Act[T]], found: T, url: Callable[[str], str]) -> list[dict[str, Any]]:
    """The acts that would change something, for the template. `url` returns the URL of an act for the act's name."""
    return [  # `ends` may run SQL statements: the template calls it only where it shows the text
        {"name": name, "label": act.label, "ends": partial(act.what_ends, found), "url": url(name)}
        for name, act in acts.items()
        if act.fits(found)
    ]


def confirm(request: HttpRequest, act: Act[T], found: T, *, name: str, of: Named, section: Named) -> HttpResponseBase:
    """Ask for confirmation on GET. On POST, perform the act on `found`, and redirect to `of`.

    `name` is the name in the question. `of` is the page to return to, `section` the page above it, such as a list.
    """
    if act.is_proven and (question := proof_first(request)):
        return question
    if not act.fits(found):  # another administrator has performed the act meanwhile
        return redirect(of.url)
    form = act.form(request.POST if request.method == "POST" else None, initial=act.initial(found))
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                done = act.change(request, found, form.cleaned_data) or act.done % {"name": name}
            if isinstance(done, HttpResponseBase):
                return done
            messages.success(request, done)
            return redirect(of.url)
        except (ValidationError, LastAdministrator) as problem:
            text = problem.messages[0] if isinstance(problem, ValidationError) else rights.ADVICE
            if not form.fields:
                messages.error(request, text)
                return redirect(of.url)
            form.add_error(next(iter(form.fields)), text)
    context = {
        **admin.site.each_context(request),
        "title": act.question % {"name": name},
        "section": section,
        "of": of,
        "ends": act.what_ends(found),
        "act": act,
        "form": form,
    }
    return TemplateResponse(request, "administration/act.html", context)
