
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='OutgoingMail',
            fields=[
                ('turn', models.PositiveIntegerField(db_default=0, default=0)),
                ('due_at', models.DateTimeField(db_index=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=60)),
                ('requester', models.BinaryField(max_length=32, null=True)),
                ('sealed', models.BinaryField()),
                ('holds_credential', models.BooleanField(default=False)),
                ('once', models.BinaryField(max_length=32, null=True, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='StoredPicture',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('content', models.BinaryField()),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False, verbose_name='user ID')),
                ('email', models.EmailField(max_length=254, verbose_name='e-mail address')),
                ('email_verified_at', models.DateTimeField(blank=True, null=True, verbose_name='address confirmed at')),
                ('nickname', models.CharField(blank=True, max_length=60, verbose_name='nickname')),
                ('language', models.CharField(blank=True, db_default='', default='', max_length=20, verbose_name='language')),
                ('avatar', models.CharField(blank=True, editable=False, max_length=100, verbose_name='picture')),
                ('is_active', models.BooleanField(default=True, verbose_name='active')),
                ('is_staff', models.BooleanField(default=False, verbose_name='administrator')),
                ('invited_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created at')),
                ('password_changed_at', models.DateTimeField(editable=False, null=True)),
                ('profile_changed_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, null=True)),
                ('credentials_version', models.IntegerField(db_default=0, default=0, editable=False)),
                ('unlocks', models.IntegerField(db_default=0, default=0, editable=False)),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'verbose_name': 'person',
                'verbose_name_plural': 'people',
                'permissions': [('change_email_address', 'Can correct e-mail addresses of people')],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('actor', models.UUIDField(editable=False, null=True)),
                ('actor_name', models.CharField(editable=False, max_length=120)),
                ('address', models.CharField(blank=True, editable=False, max_length=50)),
                ('action', models.CharField(editable=False, max_length=40)),
                ('kind', models.CharField(editable=False, max_length=20)),
                ('key', models.CharField(editable=False, max_length=255)),
                ('name', models.CharField(editable=False, max_length=120)),
                ('changes', models.JSONField(default=dict, editable=False)),
                ('reference', models.CharField(blank=True, editable=False, max_length=8)),
            ],
            options={
                'permissions': [('view_auditentry', 'Can view the audit trail')],
                'default_permissions': (),
                'indexes': [models.Index(fields=['kind', 'key', '-id'], name='accounts_audit_key')],
            },
        ),
        migrations.CreateModel(
            name='FailedFactor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(max_length=32)),
                ('is_known', models.BooleanField()),
                ('expires_at', models.DateTimeField()),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('session_data', models.TextField(verbose_name='session data')),
                ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
                ('session_key', models.CharField(max_length=64, primary_key=True, serialize=False, verbose_name='digest of the session key')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('browser', models.CharField(blank=True, db_default='', default='', editable=False, max_length=60)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('was_known', models.BooleanField(db_default=False, default=False, editable=False)),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'browser session',
                'verbose_name_plural': 'browser sessions',
                'abstract': False,
            },
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(fields=('email',), name='accounts_user_email', violation_error_message='Somebody already uses this address.'),
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.CheckConstraint(condition=models.Q(('email', django.db.models.functions.text.Lower('email'))), name='accounts_user_email_lower_case'),
        ),
    ]
