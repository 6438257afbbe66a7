#include "autotrain/program.h"

int main(int argc, char** argv) {
  return autotrain::run_main(argc, argv);
}
