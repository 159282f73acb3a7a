// lathe clm: what run_clm.py does.
#include <fmt/format.h>

#include "lathe/app/commands/data_block.h"
#include "lathe/app/commands/lm_script.h"
#include "lathe/data/lm/causal_samples.h"

namespace lathe {
namespace {

class Clm : public LmScript<ClmArguments> {
 public:
  Clm(Terminal& terminal, CommandLine<ClmArguments>& line, RunFacts facts,
      std::shared_ptr<ProcessGroup> group)
      : LmScript(terminal, line, std::move(facts), std::move(group)) {}

  int run() {
    const std::string resume_from = run_.prepare_output(run_inputs(script_));
    Backend& backend = run_.open_device();
    const HubSettings hub = run_.hub(script_.token);
    AutoModel model = make_model(hub, causal_lm);
    const Tokenizer& tokenizer = *model.tokenizer;
    length_ = static_cast<int>(run_.row_length(script_.block_size, model));
    read_data(hub);
    run_.check_metric({"loss", "accuracy"});
    if (!train_.column.empty()) run_.learns_from({train_.column}, false);
    ThreadPool pool(static_cast<int>(training_.threads));
    const TokenizedDataset train =
        samples(train_texts(), "training", train_, tokenizer, pool, script_.max_train_samples);
    const TokenizedDataset eval =
        samples(eval_texts(), "validation", eval_file(), tokenizer, pool, script_.max_eval_samples);
    if (training_.do_train) say_samples(run_, train, tokenizer);
    run_.check_ranks({{"validation samples", summary({&eval, 1})}});
    TrainerHooks hooks = run_.hooks();
    hooks.compute_metrics = accuracy_of_tokens;
    Trainer trainer(backend, model, training_, training_.do_train ? &train : nullptr,
                    training_.do_eval ? &eval : nullptr, hooks);
    trainer.call(name(), called());
    if (script_.model_name_or_path && (!training_.do_train || resume_from.empty()))
      say_load_report(run_, trainer, model);
    run_.carry_out([&] {
      if (training_.do_train) run_.train(trainer, resume_from, train.size());
      if (training_.do_eval) evaluate(trainer, eval);
      if (training_.do_train) run_.write_card(trainer, card_facts());
    });
    run_.say_results("", nullptr);
    return 0;
  }

 private:
  /// As the script makes them; none of no texts.
  TokenizedDataset samples(std::span<const std::string_view> texts, const char* what, const TextFiles& file,
                           const Tokenizer& tokenizer, ThreadPool& pool, const std::optional<int64_t>& most) {
    if (texts.empty()) return {};
    if (texts_with_words(texts).empty())
      fail(ErrorCode::kInvalidData, "{}: none of the {} {} texts has a word, expected texts to learn from",
           file.origin, texts.size(), what);
    const TextRows joined = tokenize_texts(texts, tokenizer, 0, pool);
    TextRows rows = group_texts(joined, length_);
    if (rows.size() == 0)
      fail(ErrorCode::kInvalidData,
           "{}: found {} {} tokens, expected at least the {} of a sample: give more texts, or a smaller "
           "--block_size",
           file.origin, joined.ids.size(), what, length_);
    const int64_t left = std::ssize(joined.ids) - std::ssize(rows.ids);
    keep_first(rows, most.value_or(rows.size()));
    run_.say(
        LogLevel::kInfo,
        fmt::format("{} {} samples, {} tokens, {} each; {} at the ends of thousands of texts are left out",
                    rows.size(), what, rows.ids.size(), length_, left));
    return causal_samples(std::move(rows.ids), std::move(rows.begins));
  }

  /// As run_clm.py gives them to create_model_card.
  CardFacts card_facts() const {
    const std::string dataset = script_.dataset_name.value_or(""),
                      part = script_.dataset_config_name.value_or("");
    return {.base_model = script_.model_name_or_path.value_or(""),
            .task = "text-generation",
            .task_name = "Causal Language Modeling",
            .language = {},
            .dataset = part.empty() ? dataset : dataset + " " + part,
            .dataset_tag = dataset,
            .dataset_args = part};
  }

  /// What messages call the training data: where they are, and what is read of them.
  std::string called() const {
    return fmt::format(
        "{}, {}, joined, {} tokens{}{}{}", train_.origin, train_.from, length_,
        script_.keep_linebreaks ? "" : ", without ends of lines",
        split_ > 0 ? fmt::format(", without the first {}", split_) : "",
        script_.max_train_samples ? fmt::format(", the first {} samples", *script_.max_train_samples) : "");
  }

  int length_ = 0;  ///< of a sample, in tokens
};

}  // namespace

Command clm_command() {
  return script_command<Clm, ClmArguments>(
      "clm", "run_clm", "train a model that writes, on texts",
      "lathe clm --model_name_or_path HuggingFaceTB/SmolLM2-135M --train_file texts.txt --block_size 512 \\\n"
      "      --do_train --do_eval --output_dir mine");
}

}  // namespace lathe
