"""The tests, each in the lowest folder where a user would see the behaviour break:

- `unit`: modules and pages, with Django's test client; the name of a file begins with its package.
- `contract`: requests to a server; the number of a file is the section of the specification.
- `security`: attackers and victims, limits, access. `programs`: what is started from a shell.
- `faults`: races, killed and full servers. `browser`, `clients`: real browsers and libraries. `fuzz`: hostile requests.
- `project`: documents, imports, catalogues, migrations. `bench`, `drill`: figures, outside of continuous integration.

The helpers beside this file, the first that is enough:

- `factories`: rows, pictures, the database as text.
- `pages`, `grants`: what people and applications do, with Django's test client.
- `driver`: a browser and a backend that use the service over HTTP, and know nothing of its code.
- `server`: the service under gunicorn, requests as bytes, metrics, and `wait_until`, the one loop that waits.
- `databases`, `peers`: the servers beside the service.
- `faults.load`, `faults.people`: applications and people while something fails. `documented`: what docs/ tells an
  operator to write.
"""
