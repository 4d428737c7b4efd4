"""The documents for developers of applications: files of docs/ and a reference, served as pages below /docs."""
