"""Constants of the cost model of products (codegen_cuda/cost_constants.def) from timings: those
under which its estimates are nearest, in the logarithm, and which stay near what they were where
the timings do not tell."""
import math

# Those of the table that products depend on.
FITTED = ("start_seconds", "first_bytes_cycles", "arrival_cycles", "l2_bytes_per_clock",
          "l2_total_bytes_per_clock", "epilogue_latency", "split_latency", "multicast_latency",
          "remote_bytes_per_clock", "wgmma_share", "mma_share", "mma_share_of_wgmma")
STEP = 0.05  # of a constant's logarithm, for a derivative: the model has corners
PRIOR = 0.02  # what a constant's change by a factor of e costs, of a timing's error by as much
STEPS = 20


def solve(matrix, vector):
    """Of a symmetric positive definite matrix."""
    rows = [[*row, value] for row, value in zip(matrix, vector)]
    for i, pivot in enumerate(rows):
        for row in rows[i + 1:]:
            factor = row[i] / pivot[i]
            for j in range(i, len(pivot)):
                row[j] -= factor * pivot[j]
    found = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        found[i] = (rows[i][-1] - sum(rows[i][j] * found[j]
                                      for j in range(i + 1, len(rows)))) / rows[i][i]
    return found


def spread(estimates, measured):
    """The factor by which estimates are off, in the root mean square."""
    return math.exp(
        math.sqrt(sum(math.log(a / b)**2 for a, b in zip(estimates, measured)) / len(measured)))


def fit(estimate, measured, start):
    """Constants {NAME: value} in place of `start`; `estimate` gives seconds for such constants in
    the order of `measured`. Gauss and Newton's method, damped (Levenberg)."""
    names = [name for name in FITTED if name in start]

    def errors(logs):
        constants = {name: start[name] * math.exp(log) for name, log in zip(names, logs)}
        return [math.log(a / b) for a, b in zip(estimate(constants), measured)]

    def cost(found, logs):
        return sum(each**2
                   for each in found) + PRIOR * len(measured) / len(names) * sum(log**2
                                                                                 for log in logs)

    logs, damping = [0.0] * len(names), 1e-3
    found = errors(logs)
    for _ in range(STEPS):
        slopes = []
        for i in range(len(names)):
            moved = [log + STEP * (j == i) for j, log in enumerate(logs)]
            slopes.append([(a - b) / STEP for a, b in zip(errors(moved), found)])
        prior = PRIOR * len(measured) / len(names)
        gradient = [
            -sum(s * r
                 for s, r in zip(slope, found)) - prior * log
            for slope, log in zip(slopes, logs)]
        better = None
        while better is None and damping < 1e6:
            matrix = [[
                sum(a * b
                    for a, b in zip(slopes[i], slopes[j])) + (prior + damping) * (i == j)
                for j in range(len(names))]
                      for i in range(len(names))]
            # A factor of two at most in one step: beyond, slopes say nothing.
            moved = [
                log + max(-0.7, min(0.7, step)) for log, step in zip(logs, solve(matrix, gradient))]
            new = errors(moved)
            if cost(new, moved) < cost(found, logs):
                better = moved, new
            else:
                damping *= 10
        if better is None:
            break
        gained = cost(found, logs) - cost(better[1], better[0])
        (logs, found), damping = better, damping / 10
        if gained < 1e-6 * len(measured):
            break
    return {name: start[name] * math.exp(log) for name, log in zip(names, logs)}


def regret(choices, times):
    """The geometric mean, over shapes, of the time of what was chosen over the best time of all
    that was measured, where it was; and of how many shapes."""
    ratios = [
        times[shape][schedule] / min(times[shape].values())
        for shape, schedule in choices.items()
        if schedule in times.get(shape, {})]
    return (math.exp(sum(map(math.log, ratios)) / len(ratios)), len(ratios)) if ratios else (None,
                                                                                             0)


def table_text(constants):
    """Rows of cost_constants.def as they would be."""
    return [f"ANYDIM_COST({name}, {value:.4g}," for name, value in constants.items()]
