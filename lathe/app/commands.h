#pragma once
#include <string>
#include <vector>

namespace lathe {

/// A command of the program: takes the words behind its name, gives the exit code.  Throws Error.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
};

int run_glue(const std::vector<std::string>& args);
int run_qa(const std::vector<std::string>& args);
int run_launch(const std::vector<std::string>& args);
int run_predict(const std::vector<std::string>& args);
int run_bench(const std::vector<std::string>& args);
int run_demo(const std::vector<std::string>& args);
int run_tokenize(const std::vector<std::string>& args);
int run_info(const std::vector<std::string>& args);
int run_doctor(const std::vector<std::string>& args);
int run_arguments(const std::vector<std::string>& args);

/// All commands, in the order of help.
const std::vector<Command>& commands();

}  // namespace lathe
