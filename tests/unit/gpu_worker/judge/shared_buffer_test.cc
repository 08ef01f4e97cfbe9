#include "gpu_worker/judge/shared_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

TEST_CASE("SharedBuffer: its size cannot be changed through the descriptor") {
  std::string error;
  auto buffer = SharedBuffer::Create(10, SharedBuffer::Access::kRunnerWrites, error);
  REQUIRE(buffer);
  CHECK(buffer->size() >= 10);
  CHECK(ftruncate(buffer->fd(), 0) != 0);
  CHECK(ftruncate(buffer->fd(), 1 << 20) != 0);
  CHECK(pwrite(buffer->fd(), "x", 1, 0) == 1);
  CHECK(buffer->bytes()[0] == 'x');
}

TEST_CASE("SharedBuffer: what the runner only reads it cannot write") {
  std::string error;
  auto buffer = SharedBuffer::Create(10, SharedBuffer::Access::kRunnerReads, error);
  REQUIRE(buffer);
  buffer->bytes()[0] = 'a';
  CHECK(pwrite(buffer->fd(), "x", 1, 0) < 0);
  CHECK(mmap(nullptr, 10, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->fd(), 0) == MAP_FAILED);
  char first = 0;
  CHECK(pread(buffer->fd(), &first, 1, 0) == 1);
  CHECK(first == 'a');
}

TEST_CASE("SharedBuffer: moving leaves nothing behind") {
  std::string error;
  auto buffer = SharedBuffer::Create(1, SharedBuffer::Access::kRunnerWrites, error);
  REQUIRE(buffer);
  const SharedBuffer moved = std::move(*buffer);
  CHECK(moved.bytes() != nullptr);
  CHECK(buffer->bytes() == nullptr);
}

}  // namespace
}  // namespace pike::gpu
