# systemd/packages.mk: what leaves the repository: a tarball, Debian packages. The Makefile
# includes it.

NAME_VERSION := engram-accel-$(VERSION)
DIST         := build/$(NAME_VERSION).tar.gz

## dist: the last commit as build/engram-accel-VERSION.tar.gz, from one commit the same bytes
dist:
	$(Q)systemd/dist $(NAME_VERSION) $(DIST)

## dist-check: build that tarball outside git, install it, and ask the daemon
dist-check: dist
	$(Q)systemd/dist-check $(NAME_VERSION) $(DIST)

# DEB_VERSION and MAINTAINER are for whoever publishes them. With nvcc (CUDA=auto, 1) there is a
# package for GPUs, too. DEB_BUILD_OPTIONS is Debian's; nocheck skips the unit tests.
DEB_VERSION ?= $(VERSION)
MAINTAINER  ?= Engram Accel maintainers <maintainers@engram-accel.example>
DEB         := build/deb
export DEB_BUILD_OPTIONS ?= parallel=$(JOBS)
## deb: Debian packages of this tree into build/deb, looked at by lintian
deb:
	@.ci/install-deps build test deb
	$(Q)MAINTAINER='$(MAINTAINER)' systemd/deb $(NAME_VERSION) $(DEB) $(DEB_VERSION) $(SOVERSION) \
	    $(if $(NVCC),CUDA=1 NVCC=$(NVCC) $(if $(ALL_ARCH),,CUDA_ARCH="$(CUDA_ARCH)"),CUDA=0)
	$(Q)systemd/deb-check $(DEB)

## system-test: the packages and the unit on a Debian that boots in a container, and an image
system-test:
	@.ci/install-deps system
	$(if $(wildcard $(DEB)/*.changes),,$(SUBMAKE) deb)
	$(Q)tests/system/system_test --debs $(DEB) $(if $(ONLY),--only '$(ONLY)')
	$(if $(ONLY),,$(Q)tests/system/image_test)
.PHONY: dist dist-check deb system-test
