#include "lathe/io/hub/hub.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "lathe/core/comma_locale_testing.h"
#include "lathe/core/environment.h"
#include "lathe/core/test_folder.h"
#include "lathe/io/faulty_file_system_testing.h"
#include "lathe/io/hub/http.h"
#include "lathe/io/hub/hub_download.h"
#include "lathe/io/testdata.h"

namespace lathe {
namespace {

using Names = std::vector<std::string>;

/// What is chosen of these files where every index says `index`.
Names chosen(const Names& files, const ModelNeed& need, const std::string& index = "") {
  return choose_model_files(files, need, "org/m", [&](const std::string&) { return index; });
}

TEST(Hub, SafetensorsFirstPicklesLast) {
  const ModelNeed weights{true, false};
  EXPECT_EQ(chosen({"model.safetensors", "pytorch_model.bin", "README.md"}, weights),
            Names{"model.safetensors"});
  EXPECT_EQ(chosen({"pytorch_model.bin", "tf_model.h5"}, weights), Names{"pytorch_model.bin"});
  EXPECT_EQ(chosen({"merges.txt", "tokenizer.json", "vocab.json", "model.safetensors"}, {false, true}),
            Names{"tokenizer.json"});
  EXPECT_THROW(chosen({"config.json", "tf_model.h5"}, weights), Error);
}

TEST(Hub, ModulesOfSentenceTransformersComeAlong) {
  const Names files = {"1_Pooling/config.json", "2_Dense/model.safetensors",         "2_Dense/notes.txt",
                       "config.json",           "config_sentence_transformers.json", "model.safetensors",
                       "onnx/model.onnx",       "sentence_bert_config.json"};
  const ModelNeed weights{true, false};
  EXPECT_EQ(chosen(files, weights), (Names{"config.json", "model.safetensors"}));
  Names all = files;
  all.emplace_back("modules.json");
  EXPECT_EQ(chosen(all, weights),
            (Names{"config.json", "model.safetensors", "1_Pooling/config.json", "2_Dense/model.safetensors",
                   "config_sentence_transformers.json", "sentence_bert_config.json", "modules.json"}));
}

/// A model next to it is not read, config and tokenizer may be those of the base.
TEST(Hub, OfAnAdapterTheWeightsAreItsOwn) {
  const ModelNeed all{true, true};
  const Names own = {"adapter_config.json", "adapter_model.safetensors"};
  EXPECT_EQ(chosen(own, all), own);
  EXPECT_EQ(chosen({"adapter_config.json", "adapter_model.safetensors", "config.json", "model.safetensors",
                    "tokenizer.json"},
                   all),
            (Names{"config.json", "tokenizer.json", "adapter_config.json", "adapter_model.safetensors"}));
  EXPECT_THROW(chosen({"adapter_config.json", "adapter_model.bin"}, all), Error);
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  fs.write_atomic(folder / "adapter_config.json", "{}").check();
  EXPECT_EQ(missing_files(fs, folder.path(), all), Names{"adapter_model.safetensors"});
  fs.write_atomic(folder / "adapter_model.safetensors", "x").check();
  EXPECT_EQ(missing_files(fs, folder.path(), all), Names{});
}

TEST(Hub, ShardsAreThoseThatTheIndexNames) {
  const Names files = {"config.json",         "model-old.safetensors", "model.safetensors.index.json",
                       "model-1.safetensors", "part-b.safetensors",    "pytorch_model.bin"};
  const std::string index = R"({"weight_map": {"a": "part-b.safetensors", "b": "model-1.safetensors"}})";
  EXPECT_EQ(chosen(files, {true, false}, index), (Names{"config.json", "model.safetensors.index.json",
                                                        "model-1.safetensors", "part-b.safetensors"}));
  const std::string absent = error_of(
      [&] {
        chosen(files, {true, false}, R"({"weight_map": {"a": "../x"}})");
      },
      ErrorCode::kNotFound);
  EXPECT_NE(absent.find("has not the file ../x that its model.safetensors.index.json names"),
            std::string::npos);
  for (const char* nonsense : {"", "[]", R"({"weight_map": 1})", R"({"weight_map": {"a": 1}})"})
    EXPECT_NE(error_of([&] { chosen(files, {true, false}, nonsense); }, ErrorCode::kInvalidData), "");
}

TEST(Hub, AModelIsWholeWithAllThatItsIndexNames) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const auto put = [&](const std::string& name, const std::string& text) {
    fs.write_atomic(folder / name, text).check();
  };
  const ModelNeed weights{true, false}, config{false, false}, tokenizer{false, true}, all{true, true};
  const auto missing = [&](const ModelNeed& need) { return missing_files(fs, folder.path(), need); };
  EXPECT_EQ(missing(all), (Names{"config.json", "tokenizer.json", "model.safetensors"}));
  EXPECT_EQ(missing(config), Names{"config.json"});
  EXPECT_EQ(missing(tokenizer), Names{"tokenizer.json"});
  put("config.json", "{}");
  put("model.safetensors.index.json",
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  put("model-1.safetensors", "x");
  EXPECT_EQ(missing(weights), Names{"model-2.safetensors"});
  put("model-2.safetensors", "x");
  EXPECT_EQ(missing(weights), Names{});
  put("vocab.json", "{}");  // of which no tokenizer is read
  put("merges.txt", "x");
  EXPECT_EQ(missing(all), Names{"tokenizer.json"});
  put("vocab.txt", "x");
  EXPECT_EQ(missing(all), Names{});
}

TEST(HubSettings, TimeoutsKeepTheirFractionUnderALocaleWithAComma) {
  const CommaLocale locale;
  if (!locale) GTEST_SKIP() << "needs a locale with a decimal comma, or localedef to make one";
  const std::string before = environment("HF_HUB_ETAG_TIMEOUT");
  setenv("HF_HUB_ETAG_TIMEOUT", "0.5", 1);
  EXPECT_EQ(hub_settings().api_timeout_s, 0.5);
  before.empty() ? unsetenv("HF_HUB_ETAG_TIMEOUT") : setenv("HF_HUB_ETAG_TIMEOUT", before.c_str(), 1);
}

TEST(HubCache, LinksAreRelativeAndRefsOnlyForNames) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  HubCache cache(fs, folder / "hub", {RepoKind::kDataset, "org/d", "main"});
  cache.create();
  fs.write_atomic(cache.blob("e1"), "content").check();
  cache.link("c1", "x/y/file.txt", "e1");
  EXPECT_EQ(fs.read(cache.file("c1", "x/y/file.txt")).value(), "content");
  EXPECT_EQ(std::filesystem::read_symlink(cache.file("c1", "x/y/file.txt")).string(), "../../../../blobs/e1");
  EXPECT_EQ(cache.folder(), folder / "hub/datasets--org--d");
  cache.set_ref("refs/convert/parquet", "c1");
  cache.set_ref("c1", "c1");
  EXPECT_EQ(cache.commit_of("refs/convert/parquet"), "c1");
  EXPECT_FALSE(fs.exists(cache.folder() + "/refs/c1"));
}

TEST(HubCache, ALinkThatAKilledProcessLeftIsInNobodysWay) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  HubCache cache(fs, folder / "hub", {RepoKind::kModel, "m", "main"});
  fs.create_directories(cache.snapshot("c1")).check();
  fs.write_atomic(cache.blob("e1"), "content").check();
  const std::string now = temporary_name(cache.file("c1", "x"));
  const size_t dash = now.rfind('-');
  std::filesystem::create_symlink(
      "gone", now.substr(0, dash + 1) + std::to_string(std::stoull(now.substr(dash + 1)) + 1));
  cache.link("c1", "x", "e1");
  EXPECT_EQ(fs.read(cache.file("c1", "x")).value(), "content");
}

TEST(HubCache, AThreadWaitsForTheLockOfAnother) {
  const TestFolder folder;
  HubCache cache(real_file_system(), folder / "hub", {RepoKind::kModel, "m", "main"});
  cache.create();
  const auto held = cache.lock("e1", [](double) {});
  EXPECT_THROW((void)cache.lock("e1", [](double) { fail(ErrorCode::kInterrupted, "waited"); }), Error);
  EXPECT_NE(cache.lock("e2", [](double) {}), nullptr);
}

TEST(HubCache, PathsThatLeadOut) {
  for (const char* inside : {"a", "a/b..c", "...", "refs/pr/1", ".gitattributes"})
    EXPECT_TRUE(is_inside(inside));
  for (const char* outside : {"", "/a", "..", "a/../b", "a//b", "a/.", "a/"})
    EXPECT_FALSE(is_inside(outside));
}

/// A file of two and a half parts that cannot be fetched: nothing listens there.
class HubDownload : public testing::Test {
 protected:
  static constexpr uint64_t kPart = uint64_t{16} << 20;

  void SetUp() override {
    try {
      HttpClient();
    } catch (const Error& e) {  // a static program opens no libraries
      GTEST_SKIP() << e.what();
    }
  }
  /// A file without blocks that begins with `text`.
  static void put(const std::string& path, uint64_t bytes, const std::string& text) {
    std::ofstream(path) << text;
    std::filesystem::resize_file(path, bytes);
  }
  void download(FileSystem& fs) {
    HubClient client(settings_, repo_);
    download_bytes(fs, client, file_, path_);
  }
  /// With this number of bytes free.
  class Disk : public FaultyFileSystem {
   public:
    explicit Disk(uint64_t free) : FaultyFileSystem(real_file_system(), {}), free_(free) {}
    Result<uint64_t> free_bytes(const std::string&) override { return free_; }

   private:
    uint64_t free_;
  };

  const TestFolder folder_;
  const std::string path_ = folder_ / "e.incomplete";
  const RemoteFile file_{"model.safetensors", "", 2 * kPart + kPart / 2, "http://127.0.0.1:1/"};
  const HubRepo repo_{RepoKind::kModel, "org/m", "main"};
  HubSettings settings_;
};

TEST_F(HubDownload, PartsThatAreHereAreJoinedAndNotFetched) {
  put(path_, kPart + 5, "a");  // of the second part the first bytes were appended when the process ended
  put(path_ + ".part1", kPart, "b");
  put(path_ + ".part2", kPart / 2, "c");
  Disk disk(kPart - 5);
  download(disk);
  const std::string content = disk.read(path_).value();
  ASSERT_EQ(content.size(), file_.size);
  EXPECT_EQ(content[0], 'a');
  EXPECT_EQ(content[kPart], 'b');
  EXPECT_EQ(content[2 * kPart], 'c');
  EXPECT_EQ(part_files(disk, path_), Names{});
}

TEST_F(HubDownload, RoomIsWantedForWhatIsMissingAndForJoining) {
  put(path_ + ".part0", kPart, "");
  put(path_ + ".part1", kPart - 3, "");
  put(path_ + ".part2", kPart / 2, "");
  Disk disk(kPart);
  const std::string error = error_of([&] { download(disk); }, ErrorCode::kIo);
  EXPECT_NE(error.find(fmt::format("needs {} bytes", kPart + 3)), std::string::npos) << error;
}

TEST_F(HubDownload, TheCallersThreadIsTheOneThatIsAskedToStop) {
  struct Stopped {};
  const auto caller = std::this_thread::get_id();
  bool by_another = false;
  settings_.should_stop = [&]() -> bool {
    if (std::this_thread::get_id() == caller) throw Stopped();
    return by_another = true;
  };
  EXPECT_THROW(download(real_file_system()), Stopped);
  EXPECT_FALSE(by_another);
}

TEST(HubToken, IsOneWord) {
  EXPECT_EQ(hub_token(" hf_x\r\n"), "hf_x");
  EXPECT_EQ(hub_token("hf_x\nX-Header: 1"), "hf_x");
  EXPECT_EQ(hub_token(" \n"), "");
}

TEST(Http, UrlsAreEncodedAndJoined) {
  EXPECT_EQ(percent_encoded("refs/convert/parquet", false), "refs%2Fconvert%2Fparquet");
  EXPECT_EQ(percent_encoded("a b/ü?.json", true), "a%20b/%C3%BC%3F.json");
  EXPECT_EQ(url_joined("https://h.co/a/b?x", "/c"), "https://h.co/c");
  EXPECT_EQ(url_joined("https://h.co/a/b", "c"), "https://h.co/a/c");
  EXPECT_EQ(url_joined("https://h.co/a", "http://cdn/x"), "http://cdn/x");
  EXPECT_EQ(url_joined("https://h.co/a?x=/y", "/c?from=https://z"), "https://h.co/c?from=https://z");
  EXPECT_EQ(url_joined("https://h.co/a/b?x=/y", "c?from=https://z"), "https://h.co/a/c?from=https://z");
  EXPECT_EQ(url_origin("HTTPS://Host:8/x/y"), "https://host:8");
  EXPECT_EQ(without_userinfo("https://me:p@ss@h.co:8/a@b"), "https://h.co:8/a@b");
  EXPECT_EQ(without_userinfo("https://h.co/a@b"), "https://h.co/a@b");
  EXPECT_EQ(without_userinfo("me:secret@h.co"), "h.co");
}

TEST(Http, ARefusedConnectionIsInTheResponse) {
  try {
    HttpClient();
  } catch (const Error& e) {  // a static program opens no libraries
    GTEST_SKIP() << e.what();
  }
  HttpRequest request;
  request.url = "http://127.0.0.1:1/";
  const HttpResponse response = HttpClient().perform(request);
  EXPECT_EQ(response.status, 0);
  EXPECT_NE(response.failure, "");
  EXPECT_FALSE(response.ok());
}

}  // namespace
}  // namespace lathe
