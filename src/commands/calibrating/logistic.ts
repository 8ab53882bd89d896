/** A logistic curve: the chance is 1 / (1 + exp(-(bias + weights . row))). */
export interface Logistic {
  readonly bias: number
  readonly weights: readonly number[]
}

interface Pull {
  /** Strength of the prior: the factor of half the squared distance of standardised weights. */
  readonly strength: number
  /** The prior's mean, including the bias; null for weights of 0 and a free bias. */
  readonly prior: Logistic | null
}

/** Precision of the loss, in nats. */
const PRECISION = 1e-10
const MOST_STEPS = 100

/**
 * Logistic regression with a normal prior, by Newton's method. Features are standardised first, so that the prior pulls
 * all of them equally; a constant feature gets the weight of the prior.
 * @param rows at least one, of equal length.
 */
export function fitLogistic(
  rows: readonly (readonly number[])[],
  isRight: readonly boolean[],
  { strength, prior }: Pull = { strength: 1, prior: null },
): Logistic {
  const scales = rows[0]!.map((_, feature) => scaleOf(rows.map((row) => row[feature]!)))
  // The bias is the weight of a feature that is always 1.
  const standard = rows.map((row) => [1, ...row.map((value, i) => (value - scales[i]!.mean) / scales[i]!.deviation)])
  const pull = [prior === null ? 0 : strength, ...scales.map(() => strength)]
  const towards = prior === null ? pull.map(() => 0) : standardised(prior, scales)
  const loss = (weights: readonly number[]) => {
    const errors = standard.map((row, i) => softplus(isRight[i] ? -dot(row, weights) : dot(row, weights)))
    return sum(errors) + sum(weights.map((weight, i) => (pull[i]! * (weight - towards[i]!) ** 2) / 2))
  }
  let weights = towards
  let best = loss(weights)
  for (let step = 0; step < MOST_STEPS; step++) {
    const direction = newtonStep(standard, isRight, { weights, pull, towards })
    let length = 1
    let next = moved(weights, direction, length)
    // Far from the optimum, a whole step may overshoot.
    while (loss(next) > best && length > 1e-6) {
      length /= 2
      next = moved(weights, direction, length)
    }
    const reached = loss(next)
    if (reached < best) weights = next
    if (best - reached < PRECISION) break
    best = reached
  }
  const [bias, ...slopes] = weights as [number, ...number[]]
  const unscaled = slopes.map((slope, i) => slope / scales[i]!.deviation)
  return { bias: bias - sum(unscaled.map((slope, i) => slope * scales[i]!.mean)), weights: unscaled }
}

interface Scale {
  readonly mean: number
  /** Not 0. */
  readonly deviation: number
}

function scaleOf(values: readonly number[]): Scale {
  const mean = sum(values) / values.length
  const deviation = Math.sqrt(sum(values.map((value) => (value - mean) ** 2)) / values.length)
  return { mean, deviation: deviation < 1e-9 ? 1 : deviation }
}

function standardised({ bias, weights }: Logistic, scales: readonly Scale[]): number[] {
  const shift = sum(weights.map((weight, i) => weight * scales[i]!.mean))
  return [bias + shift, ...weights.map((weight, i) => weight * scales[i]!.deviation)]
}

function newtonStep(
  rows: readonly (readonly number[])[],
  isRight: readonly boolean[],
  at: { readonly weights: readonly number[]; readonly pull: readonly number[]; readonly towards: readonly number[] },
): number[] {
  const size = at.weights.length
  const gradient = at.weights.map((weight, i) => at.pull[i]! * (weight - at.towards[i]!))
  // Keeps the system solvable if a feature is constant.
  const curvature = Array.from({ length: size }, (_, i) =>
    Array.from({ length: size }, (_, j) => (i === j ? at.pull[i]! + 1e-9 : 0)),
  )
  for (const [index, row] of rows.entries()) {
    const chance = 1 / (1 + Math.exp(-dot(row, at.weights)))
    const error = chance - Number(isRight[index])
    for (let i = 0; i < size; i++) {
      gradient[i]! += error * row[i]!
      for (let j = 0; j < size; j++) curvature[i]![j]! += chance * (1 - chance) * row[i]! * row[j]!
    }
  }
  return solved(curvature, gradient).map((value) => -value)
}

/** Solves a symmetric positive definite system by elimination. Both arguments are overwritten. */
function solved(matrix: number[][], right: number[]): number[] {
  const size = right.length
  for (let i = 0; i < size; i++) {
    for (let row = i + 1; row < size; row++) {
      const factor = matrix[row]![i]! / matrix[i]![i]!
      for (let column = i; column < size; column++) matrix[row]![column]! -= factor * matrix[i]![column]!
      right[row]! -= factor * right[i]!
    }
  }
  for (let i = size - 1; i >= 0; i--) {
    for (let column = i + 1; column < size; column++) right[i]! -= matrix[i]![column]! * right[column]!
    right[i]! /= matrix[i]![i]!
  }
  return right
}

function moved(from: readonly number[], direction: readonly number[], length: number): number[] {
  return from.map((value, i) => value + length * direction[i]!)
}

/** log(1 + exp(x)) without overflow. */
function softplus(x: number): number {
  return Math.max(0, x) + Math.log1p(Math.exp(-Math.abs(x)))
}

function dot(one: readonly number[], other: readonly number[]): number {
  let total = 0
  for (let i = 0; i < one.length; i++) total += one[i]! * other[i]!
  return total
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
