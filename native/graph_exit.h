// Ends a pass of llama.cpp at a node of its graph and keeps what the node holds.

#pragma once

#include <string>
#include <vector>

#include "ggml.h"

namespace gc {

// llama.cpp's scheduler asks before every node whether somebody wants to see it, and stops the
// graph where that one then says no. A context that was made with on_node and the exit's address
// leaves armed passes so. If the node never comes, or is not what was expected, the pass completes.
class GraphExit {
public:
    // A node of that name with n_floats numbers.
    GraphExit(std::string node, size_t n_floats) : node_(std::move(node)), floats_(n_floats) {}
    GraphExit(const GraphExit &) = delete;
    GraphExit &operator=(const GraphExit &) = delete;

    static bool on_node(ggml_tensor *node, bool ask, void *exit);

    // The passes from here on end at the node.
    void arm() { armed_ = true, reached_ = false; }
    // They complete.
    void disarm() { armed_ = reached_ = false; }
    // Whether a pass has ended there since the exit was armed.
    bool reached() const { return reached_; }
    // What the node held in that pass.
    const std::vector<float> &floats() const { return floats_; }

private:
    bool is_ours(const ggml_tensor *node) const;

    const std::string node_;
    std::vector<float> floats_;
    bool armed_ = false;
    bool reached_ = false;
};

}  // namespace gc
