/** A token that one or more replies have at the same place. Its row in a batch predicts the next token. */
interface ReplyNode {
  readonly token: number
  /** Index of the parent node; -1 if the question's last token precedes it. */
  readonly parent: number
  /** Number of its ancestors. */
  readonly depth: number
  /** The leaves below it: from the first to below the end. Each leaf is a sequence of its own. */
  readonly firstLeaf: number
  readonly endLeaf: number
}

/** Some replies to a question as a tree of their tokens, in depth-first order: replies that begin alike share rows. */
export interface ReplyTree {
  readonly nodes: readonly ReplyNode[]
  readonly leaves: number
  readonly ends: readonly ReplyEnd[]
}

/** The end of a reply. */
interface ReplyEnd {
  readonly reply: number
  /** Index of the last node of the reply; -1 if the question's last token precedes its end. */
  readonly node: number
  /** Its last token; null if that is the end of the turn. */
  readonly token: number | null
}

export interface TreeLimits {
  readonly nodes: number
  readonly leaves: number
}

interface SortedReply {
  readonly reply: number
  /** The tokens that become nodes. */
  readonly tokens: Int32Array
  readonly token: number | null
}

/**
 * Puts replies into as few trees as the limits allow. Which ones share a tree depends only on the replies.
 * @param replies of one token or more each, none with more than `limits.nodes`.
 * @param goesOn whether replies may continue: the last token then needs no node, because what follows it does not
 * matter.
 */
export function growTrees(replies: readonly Int32Array[], limits: TreeLimits, goesOn = false): ReplyTree[] {
  const toSorted = (tokens: Int32Array, reply: number): SortedReply =>
    goesOn ? { reply, tokens: tokens.subarray(0, -1), token: tokens.at(-1)! } : { reply, tokens, token: null }
  const sorted = replies.map(toSorted).sort(inOrder)
  const trees: ReplyTree[] = []
  let group: SortedReply[] = []
  let nodes = 0
  let leaves = 0
  for (const next of sorted) {
    const last = group.at(-1)
    let shared = last === undefined ? 0 : sharedTokens(last.tokens, next.tokens)
    // A reply that begins with all of the previous one continues from its leaf.
    let added = last !== undefined && shared === last.tokens.length ? 0 : 1
    if (nodes + next.tokens.length - shared > limits.nodes || leaves + added > limits.leaves) {
      trees.push(growTree(group))
      group = []
      nodes = 0
      leaves = 0
      shared = 0
      added = 1
    }
    group.push(next)
    nodes += next.tokens.length - shared
    leaves += added
  }
  trees.push(growTree(group))
  return trees
}

/** @param replies sorted, so that each shares the longest prefix with the one before it. */
function growTree(replies: readonly SortedReply[]): ReplyTree {
  const nodes: { token: number; parent: number; depth: number; firstLeaf: number; endLeaf: number }[] = []
  const ends: ReplyEnd[] = []
  /** The nodes of the previous reply. */
  let path: number[] = []
  let leaves = 0
  for (const [index, { reply, tokens, token: last }] of replies.entries()) {
    const before = replies[index - 1]?.tokens ?? new Int32Array(0)
    path = path.slice(0, sharedTokens(before, tokens))
    const continues = index > 0 && path.length === before.length
    if (!continues) leaves++
    for (let depth = path.length; depth < tokens.length; depth++) {
      const token = tokens[depth]!
      path.push(nodes.push({ token, parent: path.at(-1) ?? -1, depth, firstLeaf: leaves - 1, endLeaf: leaves }) - 1)
    }
    for (const node of path) nodes[node]!.endLeaf = leaves
    ends.push({ reply, node: path.at(-1) ?? -1, token: last })
  }
  return { nodes, leaves, ends }
}

function inOrder({ tokens: a }: SortedReply, { tokens: b }: SortedReply): number {
  const shared = sharedTokens(a, b)
  return (a[shared] ?? -1) - (b[shared] ?? -1)
}

function sharedTokens(a: Int32Array, b: Int32Array): number {
  const most = Math.min(a.length, b.length)
  let shared = 0
  while (shared < most && a[shared] === b[shared]) shared++
  return shared
}
