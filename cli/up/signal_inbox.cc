#include "cli/up/signal_inbox.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/check.h"

namespace pike::cli {

SignalInbox::SignalInbox() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    ::sigaddset(&set, signal_number);
  PIKE_CHECK(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  fd_.Reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  PIKE_CHECK(fd_.is_open());
}

std::vector<int> SignalInbox::Wait(std::chrono::milliseconds timeout) {
  pollfd poll_fd{fd_.get(), POLLIN, 0};
  ::poll(&poll_fd, 1, static_cast<int>(timeout.count()));
  std::vector<int> signals;
  signalfd_siginfo received{};
  while (::read(fd_.get(), &received, sizeof(received)) == sizeof(received))
    signals.push_back(static_cast<int>(received.ssi_signo));
  return signals;
}

}  // namespace pike::cli
