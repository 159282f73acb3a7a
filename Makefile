# make          a release at build/lathe; make CUDA=1: with the device cuda (needs nvcc); make MLX=1: with the device mps
#               (installs MLX into build/venv-mlx)
# make demo     installs what is missing, builds, fine-tunes a small BERT in under a minute, answers five questions
# make deb      dist/lathe_VERSION_ARCH.deb, a Debian package
# make wheel    dist/lathe-VERSION-….whl: the program and the Python package, for the python3 on the path; both take CUDA=1
# make docs     site/index.html: the docs with every flag, to be read in a browser without the network
# make check    lint, and the sanitized tests of the rooms that differ from the last commit: before a commit
# make test     everything that CI runs
# make test-full  also what is long or large
# make format, make lint, make clean

.PHONY: build demo deb wheel docs check test test-full format lint clean
.DEFAULT_GOAL := build

build:
	@$(if $(MLX),tools/setup.sh --mlx)
	@tools/configure.sh build -DCMAKE_BUILD_TYPE=Release -DLATHE_TESTS=OFF -DLATHE_UNITY=ON -DLATHE_EXAMPLES=OFF -DLATHE_PYTHON=OFF $(if $(CUDA),-DLATHE_CUDA=ON) $(if $(MLX),-DLATHE_MLX=ON)
	@cores=$$(getconf _NPROCESSORS_ONLN); [ -e build/lathe ] || echo "Building takes about $$((8 / cores + 1)) minutes on $$cores cores."; \
	  cmake --build build -j $$cores --target lathe_and_parts

demo:
	@tools/setup.sh
	@$(MAKE) --no-print-directory build
	@build/lathe demo --output_dir build/demo

# What goes into a package: $(call package,OPTIONS)
define package
	@tools/configure.sh build/package -DCMAKE_BUILD_TYPE=Release -DLATHE_TESTS=OFF -DLATHE_UNITY=ON -DLATHE_EXAMPLES=OFF $(if $(CUDA),-DLATHE_CUDA=ON) $(1)
	@cmake --build build/package -j $$(getconf _NPROCESSORS_ONLN)
endef

deb:
	@tools/setup.sh --deb
	$(call package,-DLATHE_PYTHON=OFF)
	@cpack -G DEB --config build/package/CPackConfig.cmake -B build/package/deb
	@mkdir -p dist && mv build/package/deb/*.deb dist/ && ls -l dist/*.deb

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
