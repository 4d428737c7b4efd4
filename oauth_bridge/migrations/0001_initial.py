
import config.infrastructure.texts
import django.db.models.deletion
import django.utils.timezone
import oauth_bridge.callback_addresses.registration
import oauth_bridge.models
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='IDToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ],
            options={
                'swappable': 'OAUTH2_PROVIDER_ID_TOKEN_MODEL',
            },
        ),
        migrations.CreateModel(
            name='RefreshToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ],
            options={
                'swappable': 'OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL',
            },
        ),
        migrations.CreateModel(
            name='PurgeRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('finished_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='SigningKey',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kid', models.CharField(editable=False, max_length=43, unique=True)),
                ('algorithm', models.CharField(editable=False, max_length=5)),
                ('public', models.TextField(editable=False)),
                ('private', models.BinaryField(null=True)),
                ('made_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('signs_from', models.DateTimeField(editable=False)),
                ('signs_until', models.DateTimeField(editable=False, null=True)),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'ordering': ['-signs_from', 'kid'],
            },
        ),
        migrations.CreateModel(
            name='WithdrawnCode',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.BinaryField(max_length=32, unique=True)),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='WriteProof',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('written_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Application',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('created', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('updated', models.DateTimeField(auto_now=True, verbose_name='updated')),
                ('client_id', models.CharField(default=oauth_bridge.models.new_client_id, editable=False, max_length=255, unique=True, verbose_name='client ID')),
                ('name', models.CharField(max_length=80, validators=[config.infrastructure.texts.refuse_control_characters], verbose_name='name')),
                ('homepage', models.URLField(blank=True, validators=[oauth_bridge.callback_addresses.registration.validate_page], verbose_name='homepage')),
                ('operator', models.CharField(blank=True, db_default='', default='', max_length=80, validators=[config.infrastructure.texts.refuse_control_characters], verbose_name='operated by')),
                ('policy_uri', models.URLField(blank=True, db_default='', default='', max_length=500, validators=[oauth_bridge.callback_addresses.registration.validate_page], verbose_name='privacy policy')),
                ('tos_uri', models.URLField(blank=True, db_default='', default='', max_length=500, validators=[oauth_bridge.callback_addresses.registration.validate_page], verbose_name='terms')),
                ('initiate_login_uri', models.URLField(blank=True, db_default='', default='', max_length=500, validators=[oauth_bridge.callback_addresses.registration.validate_sign_in_start], verbose_name='sign-in address')),
                ('post_logout_redirect_uris', models.TextField(blank=True, db_default='', default='', help_text='One address a line.', validators=[oauth_bridge.callback_addresses.registration.validate_after_sign_out], verbose_name='addresses after a sign-out')),
                ('logo', models.CharField(blank=True, editable=False, max_length=100, verbose_name='logo')),
                ('redirect_uris', models.TextField(help_text='One address a line.', validators=[oauth_bridge.callback_addresses.registration.validate_lines], verbose_name='callback addresses')),
                ('client_type', models.CharField(choices=[('confidential', 'Confidential'), ('public', 'Public')], default='confidential', max_length=32, verbose_name='kind')),
                ('id_token_alg', models.CharField(choices=[('RS256', 'RS256'), ('ES256', 'ES256')], db_default='RS256', default='RS256', max_length=5, verbose_name='signature of ID tokens')),
                ('profile_in_id_token', models.BooleanField(db_default=False, default=False, verbose_name='name and e-mail address in the ID token')),
                ('is_trusted', models.BooleanField(default=False, verbose_name='trusted')),
                ('is_enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('is_restricted', models.BooleanField(db_default=False, default=False, verbose_name='only for people in chosen groups')),
                ('disabled_reason', models.CharField(blank=True, db_default='', default='', max_length=200, validators=[config.infrastructure.texts.refuse_control_characters], verbose_name='reason')),
                ('disabled_at', models.DateTimeField(editable=False, null=True)),
                ('disabled_by', models.CharField(db_default='', default='', editable=False, max_length=120)),
                ('credentials_version', models.IntegerField(db_default=0, default=0, editable=False)),
                ('last_secret_number', models.IntegerField(db_default=0, default=0, editable=False)),
                ('groups', models.ManyToManyField(blank=True, db_constraint=False, related_name='+', to='auth.group', verbose_name='groups')),
                ('owners', models.ManyToManyField(blank=True, db_constraint=False, related_name='owned_applications', to=settings.AUTH_USER_MODEL, verbose_name='owners')),
            ],
            options={
                'verbose_name': 'application',
                'verbose_name_plural': 'applications',
                'ordering': ['name', 'id'],
                'permissions': [('rotate_applicationsecret', 'Can make new client secrets'), ('trust_application', 'Can mark applications as trusted'), ('switch_application', 'Can switch applications off and on')],
                'swappable': 'OAUTH2_PROVIDER_APPLICATION_MODEL',
            },
        ),
        migrations.CreateModel(
            name='ActivityCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('client_id', models.CharField(blank=True, max_length=255)),
                ('step', models.CharField(max_length=16)),
                ('outcome', models.CharField(max_length=16)),
                ('cause', models.CharField(blank=True, max_length=40)),
                ('number', models.BigIntegerField()),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(models.Q(('outcome', 'succeeded'), _negated=True), ('step', 'exchange'), _connector='OR'), fields=['hour'], name='oauth_bridge_activity_hour')],
                'constraints': [models.UniqueConstraint(fields=('client_id', 'hour', 'step', 'outcome', 'cause'), name='oauth_bridge_activity_count_once')],
            },
        ),
        migrations.CreateModel(
            name='ApplicationSecret',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.BinaryField(max_length=32)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('expires_at', models.DateTimeField(editable=False, null=True)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('is_revoked', models.BooleanField(db_default=False, default=False, editable=False)),
                ('is_leaked', models.BooleanField(db_default=False, default=False, editable=False)),
                ('number', models.IntegerField(editable=False)),
                ('name', models.CharField(blank=True, db_default='', default='', max_length=80, validators=[config.infrastructure.texts.refuse_control_characters])),
                ('prefix', models.CharField(db_default='', default='', editable=False, max_length=4)),
                ('maker_id', models.UUIDField(editable=False, null=True)),
                ('maker', models.CharField(db_default='', default='', editable=False, max_length=60)),
                ('told_days', models.IntegerField(editable=False, null=True)),
                ('application', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='secrets', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='AccessToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.BinaryField(max_length=32, unique=True)),
                ('scope', models.TextField()),
                ('issued_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(null=True)),
                ('revoked_cause', models.CharField(editable=False, max_length=40, null=True)),
                ('attempt', models.UUIDField(editable=False, null=True)),
                ('openid', models.TextField(editable=False, null=True)),
                ('person_version', models.IntegerField(db_default=0, default=0, editable=False)),
                ('application_version', models.IntegerField(db_default=0, default=0, editable=False)),
                ('user', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('application', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL)),
            ],
            options={
                'swappable': 'OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL',
            },
        ),
        migrations.CreateModel(
            name='Consent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fingerprint', models.CharField(max_length=64)),
                ('agreed', models.TextField(editable=False, null=True)),
                ('given_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField(null=True)),
                ('person_version', models.IntegerField(db_default=0, default=0, editable=False)),
                ('application', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='AuthorizationCode',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.BinaryField(max_length=32, unique=True)),
                ('former_digest', models.BinaryField(max_length=32, null=True)),
                ('attempt', models.UUIDField(editable=False)),
                ('redirect_uri', models.TextField()),
                ('scope', models.TextField()),
                ('code_challenge', models.CharField(blank=True, max_length=64)),
                ('issued_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('redeemed_at', models.DateTimeField(null=True)),
                ('profile_read_at', models.DateTimeField(null=True)),
                ('is_expiry_recorded', models.BooleanField(db_default=False, default=False, editable=False)),
                ('token_digest', models.BinaryField(max_length=32, null=True)),
                ('openid', models.TextField(editable=False, null=True)),
                ('person_version', models.IntegerField(db_default=0, default=0, editable=False)),
                ('application_version', models.IntegerField(db_default=0, default=0, editable=False)),
                ('application', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL)),
                ('user', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'swappable': 'OAUTH2_PROVIDER_GRANT_MODEL',
                'indexes': [models.Index(fields=['issued_at'], name='oauth_bridge_code_issued_at'), models.Index(condition=models.Q(('former_digest__isnull', False)), fields=['former_digest'], name='oauth_bridge_code_former')],
                'constraints': [models.UniqueConstraint(fields=('user', 'attempt'), name='oauth_bridge_one_code_an_attempt')],
            },
        ),
        migrations.CreateModel(
            name='ActivityRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('attempt', models.UUIDField(null=True)),
                ('client_id', models.CharField(blank=True, max_length=255)),
                ('step', models.CharField(max_length=16)),
                ('outcome', models.CharField(max_length=16)),
                ('cause', models.CharField(blank=True, max_length=40)),
                ('reference', models.CharField(blank=True, max_length=8)),
                ('address', models.CharField(blank=True, max_length=50)),
                ('browser', models.CharField(blank=True, max_length=60)),
                ('login_mark', models.BinaryField(max_length=8, null=True)),
                ('detail', models.JSONField(default=dict)),
                ('is_proven', models.BooleanField(default=False)),
                ('person', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['client_id', '-id'], name='oauth_bridge_activity_client'), models.Index(fields=['reference'], name='oauth_bridge_activity_ref'), models.Index(condition=models.Q(('attempt__isnull', False)), fields=['attempt'], name='oauth_bridge_activity_attempt'), models.Index(condition=models.Q(('person__isnull', False)), fields=['person', '-id'], name='oauth_bridge_activity_person'), models.Index(condition=models.Q(('login_mark__isnull', False)), fields=['login_mark'], name='oauth_bridge_activity_login')],
            },
        ),
        migrations.AddIndex(
            model_name='applicationsecret',
            index=models.Index(fields=['digest'], name='oauth_bridge_secret_digest'),
        ),
        migrations.AddConstraint(
            model_name='applicationsecret',
            constraint=models.UniqueConstraint(fields=('application', 'number'), name='oauth_bridge_secret_number'),
        ),
        migrations.AddConstraint(
            model_name='consent',
            constraint=models.UniqueConstraint(fields=('user', 'application'), name='oauth_bridge_consent_once'),
        ),
    ]
