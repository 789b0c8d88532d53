# systemd/packages.mk: what leaves the repository: a tarball. The Makefile includes it.

NAME_VERSION := engram-accel-$(VERSION)
DIST         := build/$(NAME_VERSION).tar.gz

## dist: the last commit as build/engram-accel-VERSION.tar.gz, from one commit the same bytes
dist:
	$(Q)systemd/dist $(NAME_VERSION) $(DIST)

## dist-check: build that tarball outside git, install it, and ask the daemon
dist-check: dist
	$(Q)systemd/dist-check $(NAME_VERSION) $(DIST)
.PHONY: dist dist-check
