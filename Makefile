# make          a release at build/lathe; make CUDA=1: with the device cuda (needs nvcc); make MLX=1: with the device mps
#               (installs MLX into build/venv-mlx)
# make demo     installs what is missing, builds, fine-tunes a small BERT in under a minute, answers five questions
# make parquet  only what reads Parquet, under a minute: fetches Apache Arrow into build/venv-parquet, builds that part
# make deb      dist/lathe_VERSION_ARCH.deb, a Debian package
# make tarball  dist/lathe-linux-ARCH.tar.gz, to be unpacked anywhere
# make wheel    dist/lathe-VERSION-….whl: the program and the Python package, for the python3 on the path; all three take CUDA=1
# make docs     site/index.html: the docs with every flag, to be read in a browser without the network
# make check    lint, and the sanitized tests of the rooms that differ from the last commit: before a commit
# make test     everything that CI runs
# make test-full  also what is long or large
# make format, make lint, make clean

.PHONY: build demo parquet deb tarball wheel docs check test test-full format lint clean
.DEFAULT_GOAL := build

# Minutes that a cold build takes.
minutes = $$((8 / $$(getconf _NPROCESSORS_ONLN) + 1))
on_cores = on $$(getconf _NPROCESSORS_ONLN) cores

configure = tools/configure.sh build -DCMAKE_BUILD_TYPE=Release -DLATHE_TESTS=OFF -DLATHE_UNITY=ON -DLATHE_EXAMPLES=OFF -DLATHE_PYTHON=OFF $(if $(CUDA),-DLATHE_CUDA=ON) $(if $(MLX),-DLATHE_MLX=ON)

build:
	@$(if $(MLX),tools/setup.sh --mlx)
	@$(configure)
	@[ -e build/lathe ] || echo "Building takes about $(minutes) minutes $(on_cores)."
	@cmake --build build -j $$(getconf _NPROCESSORS_ONLN) --target lathe_and_parts

demo:
	@if [ -e build/lathe ]; then echo "This takes about a minute."; \
	  else echo "This takes about $$(($(minutes) + 2)) minutes $(on_cores): what is missing is installed, Lathe is built, a small BERT is trained."; fi
	@tools/setup.sh
	@$(MAKE) --no-print-directory build
	@build/lathe demo --output_dir build/demo

parquet:
	@tools/setup.sh --parquet
	@[ -e build/.configured ] || $(configure)
	@cmake --build build --target lathe_parquet_part
	@echo "build/lathe reads Parquet now."

# What goes into a package: $(call package,OPTIONS)
define package
	@tools/configure.sh build/package -DCMAKE_BUILD_TYPE=Release -DLATHE_TESTS=OFF -DLATHE_UNITY=ON -DLATHE_EXAMPLES=OFF -DCMAKE_INSTALL_LIBDIR=lib $(if $(CUDA),-DLATHE_CUDA=ON) $(1)
	@cmake --build build/package -j $$(getconf _NPROCESSORS_ONLN)
endef

deb:
	@tools/setup.sh --deb
	$(call package,-DLATHE_PYTHON=OFF)
	@cpack -G DEB --config build/package/CPackConfig.cmake -B build/package/deb
	@mkdir -p dist && mv build/package/deb/*.deb dist/ && ls -l dist/*.deb

tarball:
	@tools/setup.sh
	$(call package,-DLATHE_PYTHON=OFF)
	@packaging/linux/tarball.sh build/package dist

wheel:
	@tools/setup.sh --wheel
	$(call package,-DLATHE_PYTHON_PROGRAM=$$(echo build/venv-wheel/bin/python3.*))
	@build/venv-wheel/bin/python3 tools/make_wheel.py build/package dist

docs:
	@tools/setup.sh --docs
	@build/venv-docs/bin/python3 tools/make_docs.py site

check:
	@tools/check.sh

test:
	@tools/test.sh

test-full:
	@tools/test.sh --full

format:
	@tools/format.sh

lint:
	@tools/check_layers.py
	@tools/format.sh --check

clean:
	@rm -rf build
