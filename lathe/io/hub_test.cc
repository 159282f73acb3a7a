#include "lathe/io/hub.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lathe/io/http.h"
#include "lathe/io/test_folder.h"

namespace lathe {
namespace {

using Names = std::vector<std::string>;

TEST(Hub, SafetensorsFirstShardsWithTheirIndexPicklesLast) {
  const ModelNeed weights{true, false};
  EXPECT_EQ(choose_model_files({"model.safetensors", "pytorch_model.bin", "README.md"}, weights, "m"),
            Names{"model.safetensors"});
  EXPECT_EQ(choose_model_files(
                {"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                 "model.safetensors.index.json", "pytorch_model.bin"},
                weights, "m"),
            (Names{"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors"}));
  EXPECT_EQ(choose_model_files({"pytorch_model.bin", "tf_model.h5"}, weights, "m"),
            Names{"pytorch_model.bin"});
  EXPECT_EQ(choose_model_files({"tokenizer.json", "model.safetensors"}, {false, true}, "m"),
            Names{"tokenizer.json"});
  EXPECT_THROW(choose_model_files({"config.json", "tf_model.h5"}, weights, "m"), Error);
}

TEST(Hub, AModelIsWholeWithAllThatItsIndexNames) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const auto put = [&](const std::string& name, const std::string& text) {
    fs.write_atomic(folder / name, text).check();
  };
  put("config.json", "{}");
  put("model.safetensors.index.json",
      R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  put("model-1.safetensors", "x");
  EXPECT_FALSE(is_whole_model(fs, folder.path(), {true, false}));
  put("model-2.safetensors", "x");
  EXPECT_TRUE(is_whole_model(fs, folder.path(), {true, false}));
  EXPECT_FALSE(is_whole_model(fs, folder.path(), {true, true}));
  put("vocab.txt", "x");
  EXPECT_TRUE(is_whole_model(fs, folder.path(), {true, true}));
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

TEST(Http, UrlsAreEncodedAndJoined) {
  EXPECT_EQ(percent_encoded("refs/convert/parquet", false), "refs%2Fconvert%2Fparquet");
  EXPECT_EQ(percent_encoded("a b/ü?.json", true), "a%20b/%C3%BC%3F.json");
  EXPECT_EQ(url_joined("https://h.co/a/b?x", "/c"), "https://h.co/c");
  EXPECT_EQ(url_joined("https://h.co/a/b", "c"), "https://h.co/a/c");
  EXPECT_EQ(url_joined("https://h.co/a", "http://cdn/x"), "http://cdn/x");
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
