"""The paths of sign-in, profile and pictures. allauth reverses the route names that begin with `account_`."""

from allauth.account import views as library
from django.urls import path, re_path
from django.views.decorators.cache import never_cache
from django.views.generic import RedirectView

from accounts import views

urlpatterns = [
    # allauth redirects to `account_email`, its page of e-mail addresses. Here the profile shows the address. The path
    # is not below /accounts, or else allauth's middleware would redirect /accounts/, which must not exist (D2).
    path("", RedirectView.as_view(pattern_name="profile"), name="account_email"),
    path("accounts", RedirectView.as_view(pattern_name="profile", http_method_names=["get", "head"])),
    path("accounts/sign-in", views.SignInView.as_view(), name="account_login"),
    path("accounts/sign-out", views.SignOutView.as_view(), name="account_logout"),
    path("accounts/inactive", library.account_inactive, name="account_inactive"),
    path("accounts/profile", views.ProfileView.as_view(), name="profile"),
    path(
        "accounts/confirm-email",
        never_cache(library.email_verification_sent),
        name="account_email_verification_sent",
    ),
    path("accounts/confirm-email/send", views.send_code, name="send_code"),
    path("accounts/password/reset", views.PasswordResetView.as_view(), name="account_reset_password"),
    path("accounts/password/reset/sent", library.password_reset_done, name="account_reset_password_done"),
    path(
        "accounts/password/reset/done",
        library.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    re_path(
        r"^accounts/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)$",
        views.PasswordResetFromKeyView.as_view(),
        name="account_reset_password_from_key",
    ),
    path("avatars/<uuid:sub>/<slug:version>.png", views.avatar, name="avatar"),
]
