"""The paths of sign-in, sign-up, profile and pictures."""

from allauth.account import views as library
from django.urls import path, re_path

from accounts import profile
from accounts.factors import views as factors
from accounts.pictures.current_picture import avatar
from accounts.sign_in import password_pages, reauthentication, sign_up, views

urlpatterns = [
    path("accounts/sign-in", views.SignInView.as_view(), name="account_login"),
    path("accounts/sign-in/forget", views.forget_account, name="forget_account"),
    path("accounts/sign-out", views.SignOutView.as_view(), name="account_logout"),
    path("accounts/sign-in/code", factors.SecondFactorView.as_view(), name="mfa_authenticate"),
    path("accounts/sign-in/passkey", factors.PasskeySignInView.as_view(), name="mfa_login_webauthn"),
    path("accounts/confirm/code", factors.ConfirmByCodeView.as_view(), name="mfa_reauthenticate"),
    path("accounts/confirm/passkey", factors.ConfirmByPasskeyView.as_view(), name="mfa_reauthenticate_webauthn"),
    path("accounts/security/authenticator", factors.ActivateTOTPView.as_view(), name="mfa_activate_totp"),
    path("accounts/security/authenticator/off", factors.DeactivateTOTPView.as_view(), name="mfa_deactivate_totp"),
    path("accounts/security/recovery-codes", factors.RecoveryCodesView.as_view(), name="mfa_view_recovery_codes"),
    path(
        "accounts/security/recovery-codes/new",
        factors.NewRecoveryCodesView.as_view(),
        name="mfa_generate_recovery_codes",
    ),
    path("accounts/security/passkeys/add", factors.AddPasskeyView.as_view(), name="mfa_add_webauthn"),
    path("accounts/security/passkeys/<int:pk>", factors.RenamePasskeyView.as_view(), name="mfa_edit_webauthn"),
    path(
        "accounts/security/passkeys/<int:pk>/remove",
        factors.RemovePasskeyView.as_view(),
        name="mfa_remove_webauthn",
    ),
    path("accounts/sign-up", sign_up.SignUpView.as_view(), name="account_signup"),
    path("accounts/sign-up/passkey", sign_up.PasskeySignUpView.as_view(), name="account_signup_by_passkey"),
    path("accounts/sign-up/passkey/add", factors.FirstPasskeyView.as_view(), name="mfa_signup_webauthn"),
    path("accounts/profile", profile.ProfileView.as_view(), name="profile"),
    path("accounts/security", profile.SecurityView.as_view(), name="security"),
    path("accounts/security", profile.SecurityView.as_view(), name="mfa_index"),
    path("accounts/security", profile.SecurityView.as_view(), name="mfa_list_webauthn"),
    path("accounts/browsers", profile.BrowsersView.as_view(), name="browsers"),
    path("accounts/password/change", password_pages.PasswordChangeView.as_view(), name="account_change_password"),
    path("accounts/confirm", reauthentication.ConfirmView.as_view(), name="account_reauthenticate"),
    path("accounts/email", views.EmailView.as_view(), name="email"),
    path("accounts/confirm-email", views.CodeView.as_view(), name="account_email_verification_sent"),
    path("accounts/language", profile.choose_language, name="language"),
    path("accounts/delete", profile.DeletionView.as_view(), name="delete_account"),
    path("accounts/confirm-email/send", views.send_code, name="send_code"),
    path("accounts/password/reset", password_pages.PasswordResetView.as_view(), name="account_reset_password"),
    path("accounts/password/reset/sent", library.password_reset_done, name="account_reset_password_done"),
    re_path(
        r"^accounts/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)$",
        password_pages.PasswordResetFromKeyView.as_view(),
        name="account_reset_password_from_key",
    ),
    path("avatars/<uuid:sub>/<slug:version>.png", avatar, name="avatar"),
]
