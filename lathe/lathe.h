#pragma once

/// All that a program written against the library needs; a part of it can be included by its own header.

#include "lathe/api/compile.h"        // a module and a loss → one compiled step
#include "lathe/api/hf.h"             // hf::Trainer(model, args, train_dataset, eval_dataset)
#include "lathe/backends/register.h"  // devices by name
#include "lathe/core/error.h"         // what is thrown
#include "lathe/core/thread_pool.h"
#include "lathe/core/version.h"
#include "lathe/data/dataset.h"  // texts with labels: GLUE's files, own csv, tsv, json
#include "lathe/data/metrics.h"
#include "lathe/data/squad.h"
#include "lathe/data/tokenized.h"
#include "lathe/data/torch_random.h"  // PyTorch's random numbers
#include "lathe/models/make_model.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"  // relu, linear, mean, …
#include "lathe/settings/training_arguments.h"
#include "lathe/tokenizers/tokenizer.h"
#include "lathe/train/auto_model.h"  // from_pretrained
#include "lathe/train/log_format.h"
#include "lathe/train/trainer.h"
