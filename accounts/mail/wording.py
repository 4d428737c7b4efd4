"""List messages of Django, allauth and Django OAuth Toolkit. Our catalogues replace the libraries' translations.

With one translation for all libraries, all pages use the same words and address people in the same form. The database
stores the names of permissions in English; accounts.admin_forms translates these names.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy, gettext_noop, ngettext_lazy

MESSAGES = [
    gettext_lazy("This field is required."),
    gettext_lazy("You must type the same password each time."),
    gettext_lazy("This password is too common."),
    gettext_lazy("Your password can’t be a commonly used password."),
    gettext_lazy("The submitted file is empty."),
    gettext_lazy("Null characters are not allowed."),
    ngettext_lazy(
        "Ensure this value has at most %(limit_value)d character (it has %(show_value)d).",
        "Ensure this value has at most %(limit_value)d characters (it has %(show_value)d).",
        "limit_value",
    ),
    gettext_lazy("Confidential"),
    gettext_lazy("Public"),
    gettext_lazy("created"),
    gettext_lazy("updated"),
]
# Our catalogues translate the months, because Django's Portuguese translation begins them with a capital letter.
MONTHS = [
    gettext_lazy("January"),
    gettext_lazy("February"),
    gettext_lazy("March"),
    gettext_lazy("April"),
    gettext_lazy("May"),
    gettext_lazy("June"),
    gettext_lazy("July"),
    gettext_lazy("August"),
    gettext_lazy("September"),
    gettext_lazy("October"),
    gettext_lazy("November"),
    gettext_lazy("December"),
]
PERMISSIONS = [
    gettext_noop("Can add application"),
    gettext_noop("Can change application"),
    gettext_noop("Can delete application"),
    gettext_noop("Can view application"),
    gettext_noop("Can add group"),
    gettext_noop("Can change group"),
    gettext_noop("Can delete group"),
    gettext_noop("Can view group"),
    gettext_noop("Can add person"),
    gettext_noop("Can change person"),
    gettext_noop("Can delete person"),
    gettext_noop("Can view person"),
]
