#include "lathe/train/python/saved_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lathe/io/torch/pickle_json.h"
#include "lathe/io/torch/torch_file.h"
#include "lathe/settings/argument_table.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using nlohmann::json;
using Ref = PickleBuilder::Ref;

constexpr const char* kPickleFile = "training_args.bin";

/// Fields that are members of an enumeration in Python.
constexpr std::array<std::pair<std::string_view, const char*>, 6> kEnumerations = {{
    {"lr_scheduler_type", "transformers.trainer_utils.SchedulerType"},
    {"optim", "transformers.training_args.OptimizerNames"},
    {"logging_strategy", "transformers.trainer_utils.IntervalStrategy"},
    {"eval_strategy", "transformers.trainer_utils.IntervalStrategy"},
    {"save_strategy", "transformers.trainer_utils.SaveStrategy"},
    {"hub_strategy", "transformers.trainer_utils.HubStrategy"},
}};

/// AcceleratorConfig's attributes, which Python's Trainer asks the object for; __post_init__ has taken out
/// use_configured_state.
Ref accelerator_config(PickleBuilder& b, const nlohmann::ordered_json& given) {
  nlohmann::ordered_json config = {{"split_batches", false}, {"dispatch_batches", nullptr},
                                   {"even_batches", true},   {"use_seedable_sampler", true},
                                   {"non_blocking", false},  {"gradient_accumulation_kwargs", nullptr}};
  if (given.is_object()) config.update(given);
  return b.object("transformers.trainer_pt_utils.AcceleratorConfig", b.tuple({}), pickle_of(b, config));
}

/// Without a value they are false in Python.
constexpr std::array<std::string_view, 4> kFalseByDefault = {
    "activation_checkpointing", "gradient_checkpointing", "logging_nan_inf_filter", "disable_tqdm"};

Ref field_ref(PickleBuilder& b, const FieldInfo& info, const nlohmann::ordered_json& value) {
  if (info.rules.secret) return b.none();
  if (info.name == "accelerator_config") return accelerator_config(b, value);
  if (info.name == "debug") return b.list({});  // Lathe takes no other
  if (info.name == "report_to") {               // html is Lathe's own
    const auto has = [&](const char* name) {
      return std::find(value.begin(), value.end(), name) != value.end();
    };
    return has("tensorboard") || has("all") ? b.list({b.text("tensorboard")}) : b.list({});
  }
  if (value.is_null() &&
      std::find(kFalseByDefault.begin(), kFalseByDefault.end(), info.name) != kFalseByDefault.end())
    return b.boolean(false);
  for (const auto& [name, type] : kEnumerations)
    if (info.name == name && value.is_string()) return b.object(type, b.tuple({pickle_of(b, value)}));
  return pickle_of(b, value);
}

/// What __post_init__ sets in addition to the fields, for a single process.  If it is missing, a Trainer
/// fails, or sets the device up after its accelerator, whose state is then gone.
std::vector<std::pair<std::string, Ref>> derived(PickleBuilder& b, const TrainingArguments& args,
                                                 std::string_view device) {
  const bool cuda = device == "cuda";
  const auto make_device = [&] {
    const Ref kind = b.text(cuda || device == "mps" ? std::string(device) : "cpu");
    return b.object("torch.device", cuda ? b.tuple({kind, b.number(0)}) : b.tuple({kind}));
  };
  const Ref alone = b.object("accelerate.utils.dataclasses.DistributedType", b.tuple({b.text("NO")}));
  const Ref state = b.dict({{"_cpu", b.boolean(args.use_cpu)},
                            {"backend", b.none()},
                            {"device", make_device()},
                            {"debug", b.boolean(false)},
                            {"distributed_type", alone},
                            {"num_processes", b.number(1)},
                            {"process_index", b.number(0)},
                            {"local_process_index", b.number(0)},
                            {"fork_launched", b.boolean(false)}});
  const char* precision = args.fp16 ? "fp16" : args.bf16 ? "bf16" : "no";
  return {{"mixed_precision", b.text(precision)},
          {"distributed_state", b.object("accelerate.state.PartialState", b.tuple({}), state)},
          {"_n_gpu", b.number(cuda || device == "mps" ? 1 : 0)},
          {"_setup_devices", make_device()},
          {"fsdp_plugin_args", b.none()},
          {"deepspeed_plugin", b.none()}};
}

bool is_nothing(const json& value) {
  return value.is_null() || value == false || value == "" || (value.is_structured() && value.empty());
}

}  // namespace

Status write_arguments(FileSystem& fs, const std::string& folder, const TrainingArguments& args,
                       std::string_view device) {
  TrainingArguments shown = args;  // a bound object is not const
  const std::vector<BoundField> fields = bind(shown);
  const nlohmann::ordered_json values = to_json(fields);
  if (const Status s = fs.write_atomic(join_path(folder, kArgumentsFile), python_json(values, 2) + "\n");
      !s.ok())
    return s;
  PickleBuilder b;
  std::vector<std::pair<std::string, Ref>> attributes;
  for (const BoundField& field : fields)
    if (const auto value = values.find(field.info->name);
        value != values.end() && field.info->grade != Grade::kLathe)
      attributes.emplace_back(field.info->name, field_ref(b, *field.info, *value));
  for (auto& attribute : derived(b, args, device)) attributes.push_back(std::move(attribute));
  const Ref root = b.object("transformers.training_args.TrainingArguments", b.tuple({}), b.dict(attributes));
  return write_torch_file(fs, join_path(folder, kPickleFile), *root);
}

std::optional<json> read_arguments(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, kArgumentsFile), pickled = join_path(folder, kPickleFile);
  if (fs.exists(path)) return parse_python_json(fs.read(path).value(), path);
  if (!fs.exists(pickled)) return std::nullopt;
  const TorchFile file = TorchFile::open(fs, pickled, true);
  const auto* object = file.root().as<PickleValue::Object>();
  if (object == nullptr || object->state == nullptr || object->state->as<PickleValue::Dict>() == nullptr)
    fail(ErrorCode::kUnsupported, "{}: found a {}, expected the arguments of a Trainer", pickled,
         file.root().kind());
  return json_of(*object->state);
}

std::vector<ArgumentDifference> argument_differences(FileSystem& fs, const std::string& folder,
                                                     TrainingArguments here) {
  const std::optional<json> there = read_arguments(fs, folder);
  std::vector<ArgumentDifference> found;
  if (!there || !there->is_object()) return found;
  const nlohmann::ordered_json values = to_json(bind(here));
  for (const auto& field : numeric_fields()) {
    const std::string name(field.info.name);
    const auto old = there->find(name);
    if (old == there->end() || !values.contains(name)) continue;
    const json now = values[name];
    if (*old == now || (is_nothing(*old) && is_nothing(now))) continue;
    found.push_back({name, value_text(field.info, *old), value_text(field.info, now)});
  }
  return found;
}

}  // namespace lathe
