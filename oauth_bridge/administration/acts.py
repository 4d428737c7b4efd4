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
    """An act of an administrator on an object of type T. `question` and `done` may contain %(name)s (see `confirm`)."""

    label: Any
    question: Any
    ends: Any  # the text below the question, or a function of the object that returns the text
    # Performs the act. Returns a response, a sentence that replaces `done`, or None. May raise ValidationError.
    change: Callable[[HttpRequest, T, Answers], str | HttpResponseBase | None]
    done: Any = ""  # the sentence after the act
    permission: str = ""
    button: Any = ""  # empty: as `label`
    shows: str = ""  # an address that the question is about
    warnings: tuple[str, ...] = ()  # sentences about this address
    fits: Callable[[T], bool] = lambda _found: True  # returns whether the act would change something
    is_proven: bool = False  # the administrator must have proved their identity recently
    form: type[forms.Form] = forms.Form
    initial: Callable[[T], Answers] = lambda _found: {}  # returns the initial values of the form

    def what_ends(self, found: T) -> Any:
        return self.ends(found) if callable(self.ends) else self.ends


def offered(acts: dict[str, Act[T]], found: T, url: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return the template's variables for the acts that would change `found`. `url` makes a URL from an act's name."""
    return [  # `ends` may run SQL statements: the template calls it only where it shows the text
        {"name": name, "label": act.label, "ends": partial(act.what_ends, found), "url": url(name)}
        for name, act in acts.items()
        if act.fits(found)
    ]


def confirm(request: HttpRequest, act: Act[T], found: T, *, name: str, of: Named, section: Named) -> HttpResponseBase:
    """Show a page that asks whether to perform the act on `found`. POST with a valid form performs the act.

    If `act.is_proven`, ask for a proof of identity first. After the act, redirect to the page `of`, unless the act
    returns a response. `section` and `of` are links in the breadcrumbs. `name` replaces %(name)s in the act's texts.
    """
    if act.is_proven and (question := proof_first(request)):
        return question
    if not act.fits(found):  # perhaps another administrator has just performed the act
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
