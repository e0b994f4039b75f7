// A request to stop, from another thread or at a chosen moment.

#pragma once

#include <atomic>
#include <cstdint>

namespace gc {

class Cancel {
public:
    void request() { requested_.store(true, std::memory_order_relaxed); }

    // For tests that must hit a certain moment: the request comes at the n-th poll from now.
    void request_at_poll(int64_t n) { polls_left_.store(n, std::memory_order_relaxed); }

    void clear() {
        requested_.store(false, std::memory_order_relaxed);
        polls_left_.store(0, std::memory_order_relaxed);
    }

    bool requested() const { return requested_.load(std::memory_order_relaxed); }

    // What llama.cpp asks between the operations of a pass.
    bool poll() {
        if (polls_left_.load(std::memory_order_relaxed) > 0 && polls_left_.fetch_sub(1) == 1) {
            request();
        }
        return requested();
    }

private:
    std::atomic<bool> requested_{false};
    std::atomic<int64_t> polls_left_{0};
};

}  // namespace gc
