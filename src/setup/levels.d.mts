import type { Recipe } from './native-library.mjs'

export interface Level {
  readonly name: string
  /** Features that a processor needs, as /proc/cpuinfo names them. */
  readonly needs: readonly string[]
  /** The compiler's flags, in place of -march=native. */
  readonly flags: readonly string[]
}

/** The best first. */
export const LEVELS: readonly Level[]
/** Levels that a processor supports, the best first. @param features flags of /proc/cpuinfo, separated by spaces. */
export function supportedLevels(features: string): readonly Level[]
/** The recipe of a library for a level instead of this machine's processor. */
export function atLevel(recipe: Recipe, level: Level): Recipe
/** The processor's features, sorted and separated by spaces; empty where the system does not list them. */
export function processorFeatures(): string
