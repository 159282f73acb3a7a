# url and sha256 are those of a release: packaging/homebrew/release.sh writes them.
class Lathe < Formula
  desc "Native fine-tuning of transformers"
  homepage "https://lathe.invalid"
  url "https://lathe.invalid/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build
  depends_on arch: :arm64
  depends_on "fmt"
  depends_on macos: :sonoma # MLX needs macOS 14
  depends_on "mlx" # lathe_mlx.so takes only the version that it was built with
  depends_on "utf8proc"

  uses_from_macos "curl"
  uses_from_macos "zlib"

  def install
    args = %w[-DLATHE_TESTS=OFF -DLATHE_EXAMPLES=OFF -DLATHE_PYTHON=OFF -DLATHE_STATIC=OFF -DLATHE_GLOO=OFF
              -DLATHE_MPI=OFF -DLATHE_PARQUET=OFF -DLATHE_MLX=ON]
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", *args, *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build", "--strip"
  end

  def caveats
    <<~EOS
      The device mps takes only the version of mlx that Lathe was built with.
      When mlx has been upgraded: brew reinstall --build-from-source lathe
    EOS
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lathe --version")
    system bin/"lathe", "demo", "--device", "cpu", "--output_dir", testpath/"demo"
    assert_path_exists testpath/"demo/model.safetensors"
  end
end
