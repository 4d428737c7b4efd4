from importlib import import_module

Migration = import_module("oauth_bridge.migrations.0001_initial").Migration
