#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "cli/exit_code.h"

namespace pike::cli {
namespace {

volatile sig_atomic_t g_interrupts = 0;

void OnSignal(int) {
  g_interrupts = g_interrupts + 1;
  if (g_interrupts > 1)
    ::_exit(static_cast<int>(ExitCode::kInterrupted));
}

void Install(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  g_interrupts = 0;
  Install(OnSignal);
}

Interrupt::~Interrupt() {
  Install(SIG_DFL);
}

bool Interrupt::is_requested() const {
  return g_interrupts > 0;
}

}  // namespace pike::cli
