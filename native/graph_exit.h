// Ends a pass of llama.cpp early: after the node of its graph that has a given name.
//
// A context calls on_node for every node, asking whether it is wanted, and again once a wanted one
// is computed, whether to go on. "No" ends one split of the graph, so where the graph is split over
// several backends, every later split asks for its first node, computes it and ends there. What
// those compute is rubbish in scratch memory. llama_decode takes such a pass for complete: KV cells
// that nodes before the end filled stay, and rows of logits that were asked for are rubbish.

#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "ggml.h"

namespace gc {

class GraphExit {
public:
    // Without a name no pass ends early.
    explicit GraphExit(std::string node) : node_(std::move(node)) {}

    // While it lives, the next pass ends after the node. A pass is one graph, which holds for
    // contexts whose n_ubatch is n_batch.
    class Armed {
    public:
        explicit Armed(GraphExit &exit) : Armed(exit, nullptr, 0) {}
        // Copies the node's first n_floats to rows as well; one that holds fewer, or no F32, is not
        // the node.
        Armed(GraphExit &exit, float *rows, size_t n_floats);
        ~Armed() { exit_.armed_ = false; }
        Armed(const Armed &) = delete;
        Armed &operator=(const Armed &) = delete;

    private:
        GraphExit &exit_;
    };

    // Whether the last pass that ran armed met the node, without which it was complete.
    bool reached() const { return reached_; }

    // A ggml_backend_sched_eval_callback; self is the GraphExit.
    static bool on_node(ggml_tensor *node, bool ask, void *self);

private:
    bool wants(const ggml_tensor *node) const;
    bool can_copy(const ggml_tensor *node) const;
    void reach(const ggml_tensor *node);

    const std::string node_;
    bool armed_ = false;
    bool reached_ = false;
    float *rows_ = nullptr;
    size_t n_floats_ = 0;
};

}  // namespace gc
