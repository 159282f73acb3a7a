#include "lathe/app/commands/data_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "lathe/data/own/data_check.h"
#include "lathe/text/text.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

/// Code points of a line, after "[INFO] ".
size_t room_of_line() {
  constexpr int kLeast = 50, kMost = 130, kLevel = 7;
  return static_cast<size_t>(std::clamp(standard_port().width() - kLevel - 1, kLeast, kMost));
}

/// A text on one line, of a long one the beginning.
std::string shortened(std::string_view text, size_t room) {
  constexpr size_t kMostBytes = 1000;  // of a long text no more is looked at
  std::string line = fmt::format("{}", fmt::join(split_words(slice_code_points(text, 0, kMostBytes)), " "));
  if (unicode::length(line) <= room) return line;
  return std::string(slice_code_points(line, 0, room - 1)) + "…";
}

/// "a 3, b 2", in the order of the labels if all of them fit, else the most frequent ones.
std::string counted_labels(const std::vector<std::string>& names, const std::vector<int64_t>& counts,
                           size_t room) {
  constexpr size_t kLongestName = 30;
  const auto counted = [&](size_t id) {
    return fmt::format("{} {}", shortened(names[id], kLongestName), counts[id]);
  };
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), 0);
  const auto joined = [&](size_t most) {
    std::string text;
    for (size_t i = 0; i < most; ++i) text += (i == 0 ? "" : ", ") + counted(order[i]);
    return text;
  };
  constexpr size_t kMost = 30;
  if (order.size() <= kMost)
    if (std::string all = joined(order.size()); unicode::length(all) <= room) return all;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return counts[a] > counts[b]; });
  const std::string rarest = counted(order.back());
  for (size_t shown = std::min(kMost, order.size() - 1); shown > 1; --shown) {
    std::string text =
        fmt::format("{} and {} more, the rarest {}", joined(shown), order.size() - shown, rarest);
    if (unicode::length(text) <= room) return text;
  }
  return fmt::format("{} and {} more", joined(1), order.size() - 1);
}

/// "240 training rows; labels: billing 83, bug 77"; many labels get a line of their own.
void say_rows(ScriptRun& run, const TextDataset& data, const char* what, size_t room) {
  const std::string rows = fmt::format("{} {} row{}", data.size(), what, data.size() == 1 ? "" : "s");
  const auto say = [&](const std::string& line) { run.say(LogLevel::kInfo, line); };
  if (!data.labelled) return say(rows + "; no labels");
  if (data.label_set.kind == LabelKind::kRegression) {
    const auto [low, high] = std::minmax_element(data.targets.begin(), data.targets.end());
    const double sum = std::accumulate(data.targets.begin(), data.targets.end(), 0.0);
    return say(fmt::format("{}; labels: numbers from {} to {}, on average {:.4g}", rows, *low, *high,
                           sum / static_cast<double>(data.size())));
  }
  const std::string head = "labels: ";
  const auto& names = data.label_set.names;
  const std::string labels = head + counted_labels(names, label_counts(data), room - head.size());
  if (rows.size() + 2 + unicode::length(labels) <= room) return say(rows + "; " + labels);
  say(fmt::format("{}, {} labels", rows, names.size()));
  say(labels);
}

std::string label_of(const TextDataset& data, size_t row) {
  const LabelSet& set = data.label_set;
  if (set.kind == LabelKind::kRegression) return fmt::format("{}", data.targets[row]);
  if (set.kind == LabelKind::kClasses) return set.names[static_cast<size_t>(data.labels[row])];
  std::string names;
  for (size_t k = 0; k < set.names.size(); ++k)
    if (data.targets[row * set.names.size() + k] > 0.5f) names += (names.empty() ? "" : ", ") + set.names[k];
  return names.empty() ? "no label" : names;
}

/// Up to three of so many, one of each third: the first there whose label is not shown yet.
std::vector<size_t> three_of(size_t count, const std::function<std::string(size_t)>& label) {
  constexpr size_t kThree = 3, kFar = 1000;
  std::vector<size_t> rows;
  std::set<std::string> shown;
  for (size_t third = 0; third < std::min(kThree, count); ++third) {
    const size_t begin = third * count / kThree, end = (third + 1) * count / kThree;
    size_t row = begin;
    while (row < std::min(end, begin + kFar) && shown.contains(label(row))) ++row;
    rows.push_back(count <= kThree ? third : row < std::min(end, begin + kFar) ? row : begin);
    shown.insert(label(rows.back()));
  }
  return rows;
}

std::string lengths_line(std::vector<int32_t> lengths) {
  const LengthFacts facts = length_facts(std::move(lengths));
  return fmt::format("tokens: median {}, 90th percentile {}, 99th {}, longest {}", facts.median,
                     facts.most_of_90, facts.most_of_99, facts.longest);
}

/// The origin of what is odd.
void warn(ScriptRun& run, const TextDataset& data, const std::string& what) {
  run.say(LogLevel::kWarning, fmt::format("{}: {}", data.origin, what));
}

/// Of validation data: rows, and what training has shown the model already.
void say_validation(ScriptRun& run, const TextDataset& train, const TextDataset& data, size_t room) {
  say_rows(run, data, "validation", room);
  if (const size_t both = rows_in_both(train, data); both > 0)
    warn(run, data,
         fmt::format("{} of its {} rows have texts that the training data have, too: their scores say little "
                     "about new texts",
                     both, data.size()));
}

}  // namespace

void say_data(ScriptRun& run, const Texts& texts, const TokenizedDataset& train, bool doubts_labels) {
  const TextDataset& data = *texts.train;
  if (!run.speaks() || data.size() == 0) return;
  const size_t room = room_of_line();
  say_rows(run, data, "training", room);
  const int64_t cut = cut_samples(train);
  run.say(LogLevel::kInfo,
          lengths_line(train.uncut) +
              (cut == 0 ? std::string("; none cut")
                        : fmt::format("; {} cut at {} (--max_seq_length)", cut, train.longest())));
  for (const size_t row : three_of(data.size(), [&](size_t i) { return label_of(data, i); })) {
    const std::string head = fmt::format("row {} is {}: ", row + 1, shortened(label_of(data, row), 40));
    const std::string text = data.has_pairs() ? data.first[row] + " | " + data.second[row] : data.first[row];
    run.say(LogLevel::kInfo, head + shortened(text, room - std::min(room - 10, unicode::length(head))));
  }
  if (texts.task != nullptr) return;  // known data
  if (doubts_labels)
    for (const std::string& doubt : label_doubts(data)) warn(run, data, doubt);
  if (const std::string doubt = zero_bytes_doubt(data); !doubt.empty()) warn(run, data, doubt);
  for (const TextDataset& validation : texts.validation) say_validation(run, data, validation, room);
}

void say_questions(ScriptRun& run, const SquadDataset& train, const QaFeatures& windows) {
  if (!run.speaks() || train.examples.empty()) return;
  const size_t room = room_of_line();
  const auto unanswered = std::ranges::count_if(
      train.examples, [](const SquadExample& example) { return example.answers.empty(); });
  run.say(
      LogLevel::kInfo,
      fmt::format("{} training questions about {} contexts; {}", train.examples.size(), train.contexts.size(),
                  unanswered == 0 ? "each has an answer" : fmt::format("{} have no answer", unanswered)));
  std::vector<int32_t> lengths;
  std::vector<int64_t> parts;
  for (size_t window = 0; window < windows.example.size(); ++window) {
    if (window == 0 || windows.example[window] != windows.example[window - 1]) {
      lengths.push_back(windows.tokens.uncut[window]);
      parts.push_back(0);
    }
    ++parts.back();
  }
  if (lengths.empty()) return;
  const auto several = std::ranges::count_if(parts, [](int64_t count) { return count > 1; });
  run.say(
      LogLevel::kInfo,
      lengths_line(std::move(lengths)) +
          (several == 0 ? std::string("; each fits into one window")
                        : fmt::format("; {} are cut into 2 to {} windows of {} (--max_seq_length)", several,
                                      *std::ranges::max_element(parts), windows.tokens.longest())));
  for (const size_t row : three_of(train.examples.size(), [](size_t) { return std::string(); })) {
    const SquadExample& example = train.examples[row];
    const std::string head = fmt::format("question {}: ", row + 1);
    const std::string tail =
        " -> " + (example.answers.empty() ? "no answer" : shortened(example.answers[0].text, 30));
    run.say(LogLevel::kInfo,
            head + shortened(example.question, room - unicode::length(head) - unicode::length(tail)) + tail);
  }
}

void say_sentences(ScriptRun& run, const WordTable& train, const TagIds& ids, const TagLabels& labels,
                   const TokenizedDataset& samples) {
  if (!run.speaks() || train.size() == 0) return;
  const size_t room = room_of_line();
  const auto say = [&](const std::string& line) { run.say(LogLevel::kInfo, line); };
  std::vector<int64_t> counts(labels.names().size());
  int64_t words = 0;
  for (const std::vector<int32_t>& sentence : ids)
    for (const int32_t id : sentence) ++counts[static_cast<size_t>(id)], ++words;
  const std::string rows =
      fmt::format("{} training sentence{}, {} words", train.size(), train.size() == 1 ? "" : "s", words);
  const std::string head = "tags: ";
  const std::string tags = head + counted_labels(labels.names(), counts, room - head.size());
  if (rows.size() + 2 + unicode::length(tags) <= room) {
    say(rows + "; " + tags);
  } else {
    say(fmt::format("{}, {} different tags", rows, counts.size()));
    say(tags);
  }
  if (train.empty.count > 0)
    say(fmt::format("{} of these sentences {} no word, the first at {}", train.empty.count,
                    train.empty.count == 1 ? "has" : "have", train.place(train.empty.first)));
  say(lengths_line(samples.uncut) + (cut_samples(samples) == 0 ? "; none cut" : ""));
  const auto shown = [&](size_t i) {
    std::string text;
    for (size_t word = 0; word < train.words[i].size(); ++word) {
      const std::string& tag = train.tags[i][word];
      text += (word == 0 ? "" : " ") + train.words[i][word] + (tag == "O" ? "" : "/" + tag);
    }
    return text;
  };
  for (const size_t i : three_of(train.size(), [](size_t) { return std::string(); })) {
    const std::string place = fmt::format("sentence {}: ", i + 1);
    say(place + shortened(shown(i), room - place.size()));
  }
}

void say_choices(ScriptRun& run, const ChoiceTable& train, const TokenizedDataset& samples) {
  if (!run.speaks() || train.size() == 0) return;
  const size_t room = room_of_line();
  const auto [fewest, most] = std::ranges::minmax(
      train.endings, {}, [](const std::vector<std::string>& endings) { return endings.size(); });
  std::vector<int64_t> counts(most.size());
  for (const int32_t label : train.labels) ++counts[static_cast<size_t>(label)];
  std::vector<std::string> numbers;
  for (size_t i = 0; i < counts.size(); ++i) numbers.push_back(std::to_string(i));
  const std::string rows = fmt::format(
      "{} training row{}, {} endings each; right are ", train.size(), train.size() == 1 ? "" : "s",
      fewest.size() == most.size() ? std::to_string(most.size())
                                   : fmt::format("{} to {}", fewest.size(), most.size()));
  run.say(LogLevel::kInfo, rows + counted_labels(numbers, counts, room - std::min(room - 20, rows.size())));
  const int64_t cut = cut_samples(samples);
  run.say(LogLevel::kInfo,
          lengths_line(samples.uncut) +
              (cut == 0 ? std::string("; none cut")
                        : fmt::format("; {} rows cut at {} (--max_seq_length)", cut, samples.longest())));
  for (const size_t row : three_of(train.size(), [&](size_t i) { return std::to_string(train.labels[i]); })) {
    const auto label = static_cast<size_t>(train.labels[row]);
    const std::string head = fmt::format("row {} is {}: ", row + 1, label);
    const std::string tail = " -> " + shortened(train.second_text(row, label), (room - head.size()) / 2);
    run.say(LogLevel::kInfo,
            head + shortened(train.contexts[row], room - head.size() - unicode::length(tail)) + tail);
  }
}

void say_texts(ScriptRun& run, const TextColumns& train, const TokenizedDataset& samples,
               const std::string& loss) {
  if (!run.speaks() || train.size() == 0) return;
  const size_t room = room_of_line();
  std::string target;
  if (!train.target_name.empty()) {
    const auto [least, most] = std::ranges::minmax(train.targets);
    target = fmt::format(", {} from {:g} to {:g}", train.target_name, least, most);
  }
  run.say(LogLevel::kInfo,
          fmt::format("{} training row{} of {} texts ({}){}; {}", train.size(), train.size() == 1 ? "" : "s",
                      train.texts.size(), fmt::join(train.names, ", "), target, loss));
  const int64_t cut = cut_samples(samples);
  run.say(LogLevel::kInfo,
          lengths_line(samples.uncut) +
              (cut == 0 ? std::string("; none cut")
                        : fmt::format("; {} texts cut at {} (--max_seq_length)", cut, samples.longest())));
  for (const size_t row : three_of(train.size(), [](size_t i) { return std::to_string(i); })) {
    std::string line = fmt::format("row {}", row + 1);
    if (!train.targets.empty()) line += fmt::format(" has {:g}", train.targets[row]);
    constexpr size_t kMostTexts = 6;
    const size_t shown = std::min(kMostTexts, train.texts.size());
    const size_t each = (room - std::min(room - 20, line.size())) / shown;
    for (size_t column = 0; column < shown; ++column)
      line += (column == 0 ? ": " : " | ") +
              shortened(train.texts[column][row], each - std::min<size_t>(each - 5, 3));
    if (shown < train.texts.size()) line += fmt::format(" | {} more", train.texts.size() - shown);
    run.say(LogLevel::kInfo, line);
  }
}

void say_samples(ScriptRun& run, const TokenizedDataset& train, const Tokenizer& tokenizer) {
  if (!run.speaks()) return;
  const auto count = static_cast<size_t>(train.size());
  for (const size_t i : three_of(count, [](size_t) { return std::string(); })) {
    const std::string place = fmt::format("sample {}: ", i + 1);
    const std::string text = tokenizer.decode(train.ids(static_cast<int64_t>(i)));
    run.say(LogLevel::kInfo, place + shortened(text, room_of_line() - place.size()));
  }
}

void say_cut_words(ScriptRun& run, const char* what, const WordTable& table,
                   const LabelledSentences& labelled, int64_t length) {
  if (labelled.silent_words > 0)
    run.say(LogLevel::kInfo,
            fmt::format("{} of {} {} words have no label: the tokenizer makes no token of them",
                        labelled.silent_words, labelled.words, what));
  if (labelled.cut_words == 0) return;
  run.say(
      LogLevel::kWarning,
      fmt::format("{} of {} {} words have no label: {} of {} sentences {} cut at {} tokens, the first at {}; "
                  "--stride {} labels all of them, --max_seq_length more",
                  labelled.cut_words, labelled.words, what, labelled.cut_sentences, table.size(),
                  labelled.cut_sentences == 1 ? "is" : "are", length, table.place(labelled.first_cut),
                  length / 4));
}

}  // namespace lathe
