#include "lathe/tokenizers/templates/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/core/error_testing.h"
#include "lathe/core/source_folder_testing.h"

namespace lathe::templates {
namespace {

using Json = nlohmann::ordered_json;

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string chat_folder() {
  const char* dir = std::getenv("LATHE_DATA_DIR");
  return (dir != nullptr ? dir : source_path("../shared/data")) + "/chat_templates/";
}

std::string render(const std::string& source, const Json& context = Json::object()) {
  return ChatTemplate::parse(source, "t.jinja").render(context).text;
}

/// What a rendering, or already reading, throws.
Error error_of(const std::string& source, const Json& context = Json::object(),
               const RenderOptions& options = {}) {
  try {
    const RenderedChat out = ChatTemplate::parse(source, "t.jinja").render(context, options);
    ADD_FAILURE() << source << " gives " << out.text.substr(0, 200);
  } catch (const Error& e) {
    return e;
  }
  return {ErrorCode::kInternal, ""};
}

void expect_error(const std::string& source, ErrorCode code, const std::string& part) {
  const Error e = error_of(source);
  EXPECT_EQ(e.code(), code) << source << ": " << e.what();
  EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << source << ": " << e.what();
}

/// What jinja2 made of the templates of models, set up as transformers does: texts, errors, spans.
TEST(ChatTemplate, TemplatesOfModelsGiveWhatJinjaGives) {
  const std::string folder = chat_folder();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "skipped: no " << folder;
  const Json conversations = Json::parse(read_all(folder + "conversations.json"));
  std::stringstream lines(read_all(folder + "expected.jsonl"));
  size_t cases = 0, errors = 0, spans = 0;
  for (std::string line; std::getline(lines, line); ++cases) {
    const Json expected = Json::parse(line);
    const std::string name = expected["template"];
    Json context = conversations[expected["conversation"].get<std::string>()];
    if (!context.contains("tools")) context["tools"] = nullptr;
    context["add_generation_prompt"] = expected["add_generation_prompt"];
    for (const auto& [key, value] : expected["vars"].items()) context[key] = value;
    SCOPED_TRACE(line.substr(0, 120));
    const RenderOptions options = {.now = WallTime{2024, 7, 26}, .limits = {}};
    const std::string source = read_all(folder + name);
    try {
      const ChatTemplate chat = ChatTemplate::parse(source, name);
      const RenderedChat out = chat.render(context, options);
      ASSERT_TRUE(expected.contains("text"));
      EXPECT_EQ(out.text, expected["text"].get<std::string>());
      EXPECT_EQ(chat.has_generation(), expected.contains("assistant_spans"));
      if (!expected.contains("assistant_spans")) continue;
      ++spans;
      EXPECT_EQ(Json(out.generated_code_points()), expected["assistant_spans"]);
    } catch (const Error& e) {
      ++errors;
      ASSERT_TRUE(expected.contains("error")) << e.what();
      const std::string what = e.what(), said = ": " + expected["error"].get<std::string>();
      EXPECT_TRUE(what.starts_with(name + ":") && what.ends_with(said)) << what;
    }
  }
  EXPECT_EQ(cases, 170u);
  EXPECT_EQ(errors, 14u);
  EXPECT_GT(spans, 0u);
}

/// tools/make_template_goldens.py: small templates, and what jinja2 gives: a text, or null for an error.
TEST(ChatTemplate, SmallTemplatesGiveWhatJinjaGives) {
  const Json goldens = Json::parse(read_all(source_path("lathe/tokenizers/templates/testdata/goldens.json")));
  const Json& context = goldens["context"];
  size_t texts = 0;
  for (const Json& one : goldens["cases"]) {
    const std::string source = one[0];
    if (one[1].is_null()) {
      EXPECT_NE(error_of(source, context).code(), ErrorCode::kInternal) << source;
      continue;
    }
    ++texts;
    try {
      EXPECT_EQ(render(source, context), one[1].get<std::string>()) << source;
    } catch (const Error& e) {
      ADD_FAILURE() << source << ": " << e.what();
    }
  }
  EXPECT_GE(texts, 200u);
}

TEST(ChatTemplate, WhatIsOutsideIsRefusedByNameWithItsLine) {
  const auto refused = [](const std::string& source, const std::string& part) {
    const Error e = error_of(source);
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported) << source << ": " << e.what();
    const std::string what = e.what();
    EXPECT_TRUE(what.starts_with("t.jinja:2: the " + part)) << what;
    EXPECT_NE(what.find("--chat_template_path"), std::string::npos) << what;
  };
  refused("a\n{% include 'x' %}", "statement `include`");
  refused("a\n{% extends 'x' %}", "statement `extends`");
  refused("a\n{% call m() %}{% endcall %}", "statement `call`");
  refused("a\n{% for x in y recursive %}{% endfor %}", "statement `for … recursive`");
  refused("a\n{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}",
          "statement `generation` in a macro");
  refused("a\n{% macro m() %}{{ caller() }}{% endmacro %}", "name `caller`");
  refused("a\n{{ x | urlize }}", "filter `urlize`");
  refused("a\n{{ x is escaped }}", "test `escaped`");
  refused("a\n{{ x.encode() }}", "method `encode`");
  refused("a\n{{ lipsum() }}", "function `lipsum`");
  refused("a\n{{ f(*x) }}", "argument with `*`");
  refused("a\n{{ x[1, 2] }}", "subscript with several values");
  refused("a\n{{ '\\N{BULLET}' }}", "escape \\N");
}

TEST(ChatTemplate, MalformedTemplatesAreErrorsWithTheirLine) {
  const auto wrong = [](const std::string& source, const std::string& part) {
    expect_error(source, ErrorCode::kInvalidData, part);
    EXPECT_TRUE(std::string(error_of(source).what()).starts_with("t.jinja:")) << source;
  };
  wrong("a\n{{ x", "t.jinja:2: a tag is not closed; expected }}");
  wrong("{{ x %}", "found } without its beginning");
  wrong("{% if x %}", "`if` is not closed; expected {% endif %}");
  wrong("a\n{% for x in y %}b", "t.jinja:2: `for` is not closed");
  wrong("{# x", "a comment is not closed");
  wrong("{% raw %}x", "`raw` is not closed");
  wrong("{{ 'x }}", "a text is not closed");
  wrong("{{ }}", "found }}, expected an expression");
  wrong("{{ 1 + }}", "expected an expression");
  wrong("{{ (1 }}", "found } without its beginning");
  wrong("{{ 1) }}", "found ) without its beginning");
  wrong("{% endif %}", "without its beginning");
  wrong("{% break %}", "expected it only in a `for`");
  wrong("{% for x in y %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
        "expected it only in a `for`");
  wrong("{% set true = 1 %}", "the name of a variable");
  wrong("{% for loop in x %}{% endfor %}", "`loop`");
  wrong("{{ '\\ud83d' }}", "the escape");
  wrong("{{ 99999999999999999999 }}", "64 bits");
  wrong("{{ f(a=1, 2) }}", "an argument with a name");
  wrong("{% macro m(a, a) %}{% endmacro %}", "twice");
  EXPECT_THROW(ChatTemplate::parse("\xff", "t.jinja"), Error);
}

TEST(ChatTemplate, EndlessTemplatesEndWithAnError) {
  const RenderOptions few = {.now = {}, .limits = {.steps = 1 << 20, .text_bytes = 1 << 20}};
  const auto ends = [&](const std::string& source, const std::string& part) {
    const Error e = error_of(source, Json::object(), few);
    EXPECT_EQ(e.code(), ErrorCode::kInvalidData) << source.substr(0, 200) << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
        << source.substr(0, 200) << ": " << e.what();
  };
  expect_error("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
               ErrorCode::kInvalidData, "16777216 steps");
  ends("{{ range(1000000000)|length }}", "more than 100000 numbers");
  ends("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps");
  ends("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nest more than");
  ends("{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
       "the template ");
  ends("{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}", "deep");
  ends("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
       "steps");
  ends(
      "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
      "ns.x }}",
      "the template ");
  ends("{{ 'ab' * 999999999999 }}", "a text of more than");
  ends("{{ [1] * 999999999999 }}", "steps");
  ends("{{ 'a'.center(99999999999) }}", "a text of more than");
  ends("{{ '%999999999999d' % 1 }}", "a text of more than");
  ends("{{ 'a'|indent(99999999999) }}", "a text of more than");
  ends("{{ [[1]]|tojson(indent=99999999999) }}", "a text of more than");
  ends("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}", "nests more than");
  ends("{{ " + std::string(5000, '-') + "1 }}", "nests more than");
  std::string sum = "1", nested;
  for (int i = 0; i < 5000; ++i) sum += "+1";
  for (int i = 0; i < 5000; ++i) nested += "{% if x %}";
  ends("{{ " + sum + " }}", "nests more than");
  ends(nested, "nest more than");
}

TEST(ChatTemplate, LimitsAreThoseOfTheOptions) {
  const RenderOptions few = {.now = {}, .limits = {.steps = 100, .text_bytes = 10}};
  EXPECT_NE(std::string(error_of("{% for i in range(99) %}{% endfor %}", Json::object(), few).what())
                .find("100 steps"),
            std::string::npos);
  EXPECT_NE(std::string(error_of("12345678901", Json::object(), few).what()).find("10 bytes"),
            std::string::npos);
  EXPECT_EQ(ChatTemplate::parse("1234567890", "t").render(Json::object(), few).text, "1234567890");
}

TEST(ChatTemplate, NothingOfTheContextChanges) {
  const Json context = {{"list", {3, 1, 2}}, {"dict", {{"a", 1}}}};
  for (const char* source :
       {"{{ list.append(1) }}", "{{ list.sort() }}", "{{ list.pop() }}", "{{ dict.update({}) }}",
        "{{ dict.pop('a') }}", "{{ dict.setdefault('b', 1) }}", "{% set dict.a = 2 %}"})
    EXPECT_EQ(error_of(source, context).code(), ErrorCode::kInvalidData) << source;
  EXPECT_EQ(render("{% set x = list|sort %}{{ list }}{{ x }}", context), "[3, 1, 2][1, 2, 3]");
}

TEST(ChatTemplate, RaisedErrorsAndFaultsNameTheirLine) {
  const Error raised = error_of("a\nb\n{{ raise_exception('No tools: ' ~ 1) }}");
  EXPECT_STREQ(raised.what(), "t.jinja:3: No tools: 1");
  EXPECT_EQ(raised.code(), ErrorCode::kInvalidData);
  EXPECT_STREQ(error_of("\n{{ x.y }}").what(), "t.jinja:2: 'x' is undefined");
  EXPECT_EQ(ChatTemplate::parse("{{ 1 }}", "t").render(Json::object()).text, "1");
  EXPECT_THROW(ChatTemplate::parse("", "t").render(Json::array()), Error);
}

TEST(ChatTemplate, SpansOfGenerationAreBytesAndCodePoints) {
  const ChatTemplate t = ChatTemplate::parse(
      "{% for m in messages %}é{% generation %}{{ m }}{% endgeneration %}{% endfor %}", "t");
  EXPECT_TRUE(t.has_generation());
  const RenderedChat out = t.render({{"messages", {"ä", "", "bc"}}});
  EXPECT_EQ(out.text, "éäéébc");
  using Spans = std::vector<std::array<size_t, 2>>;
  EXPECT_EQ(out.generated, (Spans{{2, 4}, {6, 6}, {8, 10}}));
  EXPECT_EQ(out.generated_code_points(), (Spans{{1, 2}, {3, 3}, {4, 6}}));
}

TEST(ChatTemplate, ContextKeepsItsOrderAndNumbers) {
  const Json context = Json::parse(R"({"x": {"z": 1, "a": [1.0, -2, true, null, "é"]}, "range": 3})");
  EXPECT_EQ(render("{{ x }}", context), "{'z': 1, 'a': [1.0, -2, True, None, 'é']}");
  EXPECT_EQ(render("{{ x|tojson }}", context), R"({"z": 1, "a": [1.0, -2, true, null, "é"]})");
  EXPECT_EQ(render("{{ range }}", context), "3") << "variables of the context hide functions";
  EXPECT_EQ(render("{{ x }}", {{"x", "a\xff"}}), "a\xEF\xBF\xBD");
  EXPECT_THROW(render("{{ x }}", Json::parse(R"({"x": 18446744073709551615})")), Error);
  Json deep = 1;
  for (int i = 0; i < 101; ++i) deep = Json::array({deep});
  EXPECT_THROW(render("{{ x }}", {{"x", deep}}), Error);
}

TEST(ChatTemplate, ClocksTimeIsThatOfTheOptions) {
  const RenderOptions options = {.now = WallTime{2024, 7, 6, 15, 4, 5}, .limits = {}};
  const auto at = [&](const std::string& format) {
    return ChatTemplate::parse("{{ strftime_now('" + format + "') }}", "t")
        .render(Json::object(), options)
        .text;
  };
  EXPECT_EQ(at("%d %b %Y"), "06 Jul 2024");
  EXPECT_EQ(at("%A, %B %-d, %y %H:%M:%S %I %p %j"), "Saturday, July 6, 24 15:04:05 03 PM 188");
  EXPECT_EQ(at("%F %T %D %e %a %u%w%%"), "2024-07-06 15:04:05 07/06/24  6 Sat 66%");
  EXPECT_EQ(error_of("{{ strftime_now('%Q') }}").code(), ErrorCode::kInvalidData);
  EXPECT_EQ(render("{{ strftime_now('%Y')|length }}"), "4");
}

}  // namespace
}  // namespace lathe::templates
