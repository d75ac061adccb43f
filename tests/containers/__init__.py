"""A small container engine of namespaces and overlays, so that `docker-compose.yaml` runs on a machine without one.

It reads the compose file and the Dockerfile themselves. Images are built from what `make setup` fetched; what runs in
images of others is stood in for by programs of this machine (`foreign.py` says by which).
"""
