#include "engine.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>

#include "clusters.h"
#include "error.h"
#include "head.h"
#include "kernels/buffer_type.h"
#include "kernels/plugin.h"
#include "log.h"

namespace gc {

namespace {

// Also the drafter's head in llama.cpp, which one of our own over clusters takes the place of.
constexpr char kEmbedding[] = "token_embd.weight";

// A whole number of the file's metadata, 0 where there is none.
int32_t metadata_count(const llama_model *model, const char *key) {
    char text[16];
    const int32_t length = llama_model_meta_val_str(model, key, text, sizeof(text));
    return length < 0 ? 0 : std::atoi(text);
}

}  // namespace

ModelPtr Engine::load(const char *path, bool own_kernels, const char *left_out) {
    std::optional<Packing> packing;
    if (own_kernels && plugin().installed) {
        packing.emplace(left_out);
    }
    clear_log();
    ModelPtr model(llama_model_load_from_file(path, llama_model_default_params()));
    if (!model && logged_out_of_memory()) {
        throw Error(GC_OUT_OF_MEMORY,
                    std::string("there is not enough memory to load ") + path + logged_reason());
    }
    if (!model) {
        throw Error(GC_LOAD_FAILED, std::string("llama.cpp cannot load ") + path + logged_reason());
    }
    packed_bytes_ += packing ? packing->n_bytes() : 0;
    return model;
}

Engine::Engine(const char *target_path, const char *drafter_path, bool own_kernels)
    : target_path_(target_path), target_(load(target_path, own_kernels, /*left_out=*/nullptr)) {
    vocab_ = llama_model_get_vocab(target_.get());
    first_skipped_layer_ = n_layers();
    // What is left of an ended graph computes on rubbish, and expert numbers must not be rubbish.
    if (metadata_count(target_.get(), "gemma4.expert_count") == 0) {
        first_skipped_layer_ -= metadata_count(target_.get(), "gemma4.attention.shared_kv_layers");
    }
    if (drafter_path != nullptr) {
        drafter_file_.emplace(drafter_path);
        const GgufFile file(*drafter_file_);
        const bool has_centroids = file.has(kCentroidCount);
        drafter_ = load(drafter_path, own_kernels, has_centroids ? kEmbedding : nullptr);
        const llama_vocab *drafter_vocab = llama_model_get_vocab(drafter_.get());
        if (llama_vocab_n_tokens(drafter_vocab) != vocab_size() ||
            llama_model_n_embd_out(drafter_.get()) != llama_model_n_embd(target_.get())) {
            throw Error(GC_LOAD_FAILED, "the drafter belongs to another target");
        }
        if (has_centroids) {
            set_clusters(trained_clusters(file));
        }
    }
    for (llama_token token = 0; token < vocab_size(); ++token) {
        if (is_marker(token)) {
            markers_.emplace(llama_vocab_get_text(vocab_, token), token);
        }
        if (is_end(token)) {
            ends_.push_back(token);
        }
    }
}

void Engine::set_clusters(Clusters clusters) {
    if (drafter_ == nullptr) {
        throw Error(GC_BAD_ARGUMENT, "clusters are of use to a drafter only");
    }
    const GgufFile file(*drafter_file_);
    auto head = std::make_shared<const HeadWeights>(file, std::move(clusters));
    if (head->embedding.n_rows() != vocab_size() ||
        head->embedding.width() != llama_model_n_embd(drafter_.get()) ||
        head->projection.n_rows() != llama_model_n_embd_out(drafter_.get())) {
        file.fail("is not the drafter that was loaded");
    }
    head_ = std::move(head);
}

llama_token Engine::control_token(const char *spelling) const {
    const auto found = markers_.find(spelling);
    return found == markers_.end() ? -1 : found->second;
}

bool Engine::is_marker(llama_token token) const {
    const llama_token_attr attr = llama_vocab_get_attr(vocab_, token);
    if (attr & LLAMA_TOKEN_ATTR_CONTROL) {
        return true;
    }
    // Gemma 4's files mark some of its markers as user-defined; other added tokens are text.
    const std::string_view text = llama_vocab_get_text(vocab_, token);
    return (attr & LLAMA_TOKEN_ATTR_USER_DEFINED) && text.size() > 2 &&
           (text.substr(0, 2) == "<|" || text.substr(text.size() - 2) == "|>");
}

void Engine::tokenize_into(const char *text, int32_t n_bytes, std::vector<llama_token> &out) const {
    std::vector<llama_token> tokens(static_cast<size_t>(n_bytes) + 1);
    int32_t n = llama_tokenize(vocab_, text, n_bytes, tokens.data(),
                               static_cast<int32_t>(tokens.size()), false, false);
    if (n < 0) {
        throw Error(GC_INTERNAL, "llama.cpp cannot tokenize the text");
    }
    tokens.resize(static_cast<size_t>(n));
    if (n_bytes > 1 && std::any_of(tokens.begin(), tokens.end(),
                                   [this](llama_token token) { return is_marker(token); })) {
        // A merge spelled a marker: halves cannot contain it whole for ever.
        tokenize_into(text, n_bytes / 2, out);
        tokenize_into(text + n_bytes / 2, n_bytes - n_bytes / 2, out);
        return;
    }
    out.insert(out.end(), tokens.begin(), tokens.end());
}

// With special tokens off, llama.cpp still matches user-defined ones, and Gemma 4's channel and
// tool markers are of that kind. Cutting the text after the first byte of every match leaves no
// match.
std::vector<llama_token> Engine::tokenize(const char *text, int32_t n_bytes) const {
    const std::string_view view(text, static_cast<size_t>(n_bytes));
    std::set<size_t> cuts;
    for (const auto &[spelling, token] : markers_) {
        if (spelling.size() < 2) {
            continue;
        }
        for (size_t at = view.find(spelling); at != view.npos; at = view.find(spelling, at + 1)) {
            cuts.insert(at + 1);
        }
    }
    cuts.insert(view.size());

    std::vector<llama_token> tokens;
    size_t start = 0;
    for (const size_t cut : cuts) {
        if (cut > start) {
            tokenize_into(text + start, static_cast<int32_t>(cut - start), tokens);
        }
        start = cut;
    }
    return tokens;
}

std::string Engine::piece(llama_token token) const {
    if (is_marker(token)) {
        return {};
    }
    std::string bytes(32, '\0');
    int32_t n = llama_token_to_piece(vocab_, token, bytes.data(),
                                     static_cast<int32_t>(bytes.size()), 0, false);
    if (n < 0) {
        bytes.resize(static_cast<size_t>(-n));
        n = llama_token_to_piece(vocab_, token, bytes.data(), static_cast<int32_t>(bytes.size()), 0,
                                 false);
    }
    bytes.resize(static_cast<size_t>(std::max(n, 0)));
    return bytes;
}

const TokenTrie &Engine::trie() const {
    std::call_once(trie_made_, [this] {
        std::vector<std::string> texts;
        for (llama_token token = 0; token < vocab_size(); ++token) {
            texts.push_back(is_end(token) ? "" : piece(token));
        }
        trie_ = std::make_unique<const TokenTrie>(texts);
    });
    return *trie_;
}

}  // namespace gc
