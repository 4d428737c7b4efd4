from django.db import migrations, models
from django.utils import timezone


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0012_sign_ins_of_sessions'),
    ]

    # Two steps, so that existing accounts keep null.
    operations = [
        migrations.AddField(
            model_name='user',
            name='profile_changed_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AlterField(
            model_name='user',
            name='profile_changed_at',
            field=models.DateTimeField(default=timezone.now, editable=False, null=True),
        ),
    ]
