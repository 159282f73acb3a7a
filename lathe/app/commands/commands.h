#pragma once
#include <string>
#include <vector>

#include "lathe/settings/options.h"

namespace lathe {

/// A command of the program: takes the words behind its name, gives the exit code.  Throws Error.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
  Syntax (*syntax)();
};

int run_glue(const std::vector<std::string>& args);
int run_qa(const std::vector<std::string>& args);
int run_launch(const std::vector<std::string>& args);
int run_predict(const std::vector<std::string>& args);
int run_bench(const std::vector<std::string>& args);
int run_runs(const std::vector<std::string>& args);
int run_demo(const std::vector<std::string>& args);
int run_tokenize(const std::vector<std::string>& args);
int run_info(const std::vector<std::string>& args);
int run_doctor(const std::vector<std::string>& args);
int run_arguments(const std::vector<std::string>& args);
int run_completion(const std::vector<std::string>& args);

Syntax launch_syntax();
Syntax predict_syntax();
Syntax bench_syntax();
Syntax runs_syntax();
Syntax demo_syntax();
Syntax tokenize_syntax();
Syntax info_syntax();
Syntax doctor_syntax();
Syntax arguments_syntax();
Syntax completion_syntax();

/// All commands, in the order of help.
const std::vector<Command>& commands();

}  // namespace lathe
