"""List messages of Django, allauth and Django OAuth Toolkit. Our catalogues replace the libraries' translations.

With one translation for all libraries, all pages use the same words and address people in the same form. The database
stores the names of permissions in English; accounts.admin_forms translates these names.
"""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop, ngettext_lazy

# fmt: off
MESSAGES = [
    _("This field is required."), _("You must type the same password each time."), _("This password is too common."),
    _("Your password can’t be a commonly used password."), _("The submitted file is empty."),
    _("Null characters are not allowed."), _("Confidential"), _("Public"), _("created"), _("updated"),
    ngettext_lazy(
        "Ensure this value has at most %(limit_value)d character (it has %(show_value)d).",
        "Ensure this value has at most %(limit_value)d characters (it has %(show_value)d).",
        "limit_value",
    ),
]
# Our catalogues translate the months, because Django's Portuguese translation begins them with a capital letter.
MONTHS = [
    _("January"), _("February"), _("March"), _("April"), _("May"), _("June"),
    _("July"), _("August"), _("September"), _("October"), _("November"), _("December"),
]
PERMISSIONS = [
    gettext_noop("Can add application"), gettext_noop("Can change application"),
    gettext_noop("Can delete application"), gettext_noop("Can view application"),
    gettext_noop("Can add group"), gettext_noop("Can change group"),
    gettext_noop("Can delete group"), gettext_noop("Can view group"),
    gettext_noop("Can add person"), gettext_noop("Can change person"),
    gettext_noop("Can delete person"), gettext_noop("Can view person"),
]
# fmt: on
