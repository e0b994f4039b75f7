#include "clustering.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "error.h"

namespace gc {

namespace {

constexpr int32_t kRounds = 8;  // of Lloyd's algorithm for one split

using Vector = std::vector<float>;

struct Item {
    int32_t row;
    float projection;
};

class Bisection {
public:
    Bisection(const Table &rows, const std::function<bool()> &stop)
        : rows_(rows), stop_(stop), row_(width()) {
        const auto n = static_cast<size_t>(rows.n_rows());
        items_.resize(n);
        order_.resize(n);
        products_.resize(n);
        lengths_.resize(n);
        for (int32_t row = 0; row < rows.n_rows(); ++row) {
            items_[row].row = row;
            lengths_[row] = length_of(row);
            if (!std::isfinite(lengths_[row])) {
                throw Error(GC_LOAD_FAILED,
                            "a row of the drafter's embedding is no finite numbers: get it again");
            }
        }
    }

    // Rearranges n items from the first on into count clusters of equal size.
    void split(int32_t first, int32_t n, int32_t count) {
        if (count == 1) {
            return;
        }
        const int32_t left_count = count / 2;
        const int32_t n_left = n / count * left_count;
        Vector direction = widest(first, n);
        for (int32_t round = 0; round < kRounds; ++round) {
            partition(direction, first, n, n_left);
            const Vector left = mean(first, n_left);
            direction = mean(first + n_left, n - n_left);
            for (size_t i = 0; i < direction.size(); ++i) {
                direction[i] = left[i] - direction[i];
            }
        }
        partition(direction, first, n, n_left);
        split(first, n_left, left_count);
        split(first + n_left, n - n_left, count - left_count);
    }

    void finish(int32_t first, int32_t n, float *centroid, int32_t *ordering) {
        for (int32_t i = 0; i < n; ++i) {
            ordering[i] = items_[first + i].row;
        }
        std::sort(ordering, ordering + n);
        Vector sum(width());
        double squares = 0.0;
        for (int32_t i = 0; i < n; ++i) {
            rows_.decode(ordering[i], row_.data());
            add(row_, 1.0f, sum);
            squares += static_cast<double>(lengths_[ordering[i]]) * lengths_[ordering[i]];
        }
        const double scale = std::sqrt(squares / n) / std::max(length(sum), 1e-30);
        std::transform(sum.begin(), sum.end(), centroid,
                       [scale](float x) { return static_cast<float>(x * scale); });
    }

private:
    size_t width() const { return static_cast<size_t>(rows_.width()); }

    static double length(const Vector &vector) {
        double squares = 0.0;
        for (const float x : vector) {
            squares += static_cast<double>(x) * x;
        }
        return std::sqrt(squares);
    }

    float length_of(int32_t row) {
        rows_.decode(row, row_.data());
        return static_cast<float>(length(row_));
    }

    static void add(const Vector &vector, float weight, Vector &sum) {
        for (size_t i = 0; i < vector.size(); ++i) {
            sum[i] += weight * vector[i];
        }
    }

    float unit(int32_t row) const { return lengths_[row] > 0.0f ? 1.0f / lengths_[row] : 0.0f; }

    // Of unit rows.
    Vector mean(int32_t first, int32_t n) {
        Vector sum(width());
        for (int32_t i = first; i < first + n; ++i) {
            rows_.decode(items_[i].row, row_.data());
            add(row_, unit(items_[i].row), sum);
        }
        for (float &x : sum) {
            x /= static_cast<float>(n);
        }
        return sum;
    }

    // Sets the projections of n items on a direction.
    void project(const Vector &direction, int32_t first, int32_t n) {
        if (stop_()) {
            throw Error(GC_CANCELLED, "cancelled");
        }
        for (int32_t i = 0; i < n; ++i) {
            order_[i] = items_[first + i].row;
        }
        rows_.encode(direction.data(), encoded_);
        rows_.multiply(encoded_, order_.data(), n, products_.data());
        for (int32_t i = 0; i < n; ++i) {
            items_[first + i].projection = products_[i] * unit(order_[i]);
        }
    }

    // From the mean to the row that is farthest from it.
    Vector widest(int32_t first, int32_t n) {
        const Vector centre = mean(first, n);
        project(centre, first, n);
        const auto farthest = std::min_element(
            items_.begin() + first, items_.begin() + first + n,
            [](const Item &a, const Item &b) { return a.projection < b.projection; });
        Vector direction(width());
        rows_.decode(farthest->row, row_.data());
        add(row_, unit(farthest->row), direction);
        add(centre, -1.0f, direction);
        return direction;
    }

    // Brings the n_left items that lie farthest along the direction to the front.
    void partition(const Vector &direction, int32_t first, int32_t n, int32_t n_left) {
        project(direction, first, n);
        const auto begin = items_.begin() + first;
        std::nth_element(begin, begin + n_left, begin + n, [](const Item &a, const Item &b) {
            return a.projection != b.projection ? a.projection > b.projection : a.row < b.row;
        });
    }

    const Table &rows_;
    const std::function<bool()> &stop_;
    std::vector<Item> items_;
    std::vector<float> lengths_;  // by row
    Table::Encoded encoded_;
    std::vector<int32_t> order_;
    std::vector<float> products_;
    Vector row_;
};

}  // namespace

void cluster_rows(const Table &rows, int32_t count, const std::function<bool()> &stop,
                  float *centroids, int32_t *ordering) {
    Bisection bisection(rows, stop);
    bisection.split(0, rows.n_rows(), count);
    const int32_t size = rows.n_rows() / count;
    for (int32_t cluster = 0; cluster < count; ++cluster) {
        bisection.finish(cluster * size, size,
                         centroids + static_cast<size_t>(cluster) * rows.width(),
                         ordering + static_cast<size_t>(cluster) * size);
    }
}

}  // namespace gc
