#pragma once

#include <utility>

#include "common/sandbox/sandbox.h"
#include "gpu_worker/supervisor/quiet_gate.h"

namespace pike::gpu {

// A sandbox that uses the device, as a member of its quiet gate. Owned by one thread. Not a member
// before Join; the destructor ends the membership, and before it the sandbox must have been ended
// under a Teardown.
class SandboxMember : public Freezable {
 public:
  SandboxMember(QuietGate* gate, sandbox::Sandbox* sandbox) : gate_(gate), sandbox_(sandbox) {}
  ~SandboxMember() override {
    if (is_member_)
      gate_->Remove(this, party_);
  }
  SandboxMember(const SandboxMember&) = delete;
  SandboxMember& operator=(const SandboxMember&) = delete;

  // Waits while somebody else times.
  void Join(QuietGate::PartyId party) {
    is_member_ = true;
    party_ = party;
    gate_->Put(this, party);
  }
  QuietGate* gate() const { return gate_; }
  QuietGate::PartyId party() const { return party_; }

  absl::Status StartFreezing() override { return sandbox_->StartFreezing(); }
  absl::Status WaitFrozen(MonoTime deadline) override { return sandbox_->WaitFrozen(deadline); }
  void Thaw() override { sandbox_->Thaw(); }

 private:
  QuietGate* const gate_;
  sandbox::Sandbox* const sandbox_;
  bool is_member_ = false;
  QuietGate::PartyId party_ = QuietGate::kNobody;
};

}  // namespace pike::gpu
