import { mix, type Random } from './random.ts'

/** Chooses a replica for a request. @param key of what its prompt shares with others: organisation and picture. */
export type Router<Replica> = (key: number) => Replica

interface Loaded {
  /** Sequences that it has. */
  readonly load: number
}

export const ROUTERS = {
  random: <Replica extends Loaded>(replicas: readonly Replica[], random: Random): Router<Replica> => {
    return () => replicas[random.below(replicas.length)]!
  },

  'round robin': <Replica extends Loaded>(replicas: readonly Replica[]): Router<Replica> => {
    let next = 0
    return () => replicas[next++ % replicas.length]!
  },

  'least loaded': <Replica extends Loaded>(replicas: readonly Replica[]): Router<Replica> => {
    return () => replicas.reduce((least, replica) => (replica.load < least.load ? replica : least))
  },

  /** Rendezvous hashing: a key goes to the replica where it weighs most, unless that one has too much already. */
  rendezvous: <Replica extends Loaded>(replicas: readonly Replica[]): Router<Replica> => {
    return (key) => {
      const mean = replicas.reduce((sum, { load }) => sum + load, 0) / replicas.length
      const limit = Math.max(1, LOAD_BOUND * mean)
      const weights = replicas.map((_, index) => mix(key, index))
      let best = -1
      for (const [index, replica] of replicas.entries()) {
        if (replica.load < limit && (best < 0 || weights[index]! > weights[best]!)) best = index
      }
      return replicas[best]!
    }
  },
} as const

export type RouterName = keyof typeof ROUTERS

/** Multiple of the mean load that a replica may have before its keys go elsewhere. */
export const LOAD_BOUND = 1.25
