import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'
import { MarkChip } from '../../marks/annotated-text.tsx'
import type { ReplyPiece } from '../../marks/reply-text.ts'
import { CopyButton } from '../../widgets/copy-button.tsx'
import { useKept } from '../../widgets/kept.ts'
import {
  type Block,
  type MarkdownNode,
  type MarkdownNodes,
  MarkdownReader,
  markdownOf,
  type TableCell,
} from './markdown-tree.ts'

type Pieces = readonly ReplyPiece[]

/** A reply's Markdown, with its annotations as chips. Only changed blocks are rendered again. */
export function MarkdownView({ pieces, isOpen }: { readonly pieces: Pieces; readonly isOpen: boolean }) {
  const reader = useRef<MarkdownReader | null>(null)
  reader.current ??= new MarkdownReader()
  const kept = useKept<Block>()
  const blocks = reader.current.read(markdownOf(pieces), isOpen)
  return (
    <div class="markdown">
      {blocks.map((block, index) => kept(String(index), block, () => elementOf(block.node, pieces, index) as VNode))}
    </div>
  )
}

function elementsOf(nodes: MarkdownNodes, pieces: Pieces) {
  return nodes.map((node, index) => elementOf(node, pieces, index))
}

function elementOf(node: MarkdownNode, pieces: Pieces, key: number) {
  switch (node.kind) {
    case 'text':
      return node.text
    case 'mention': {
      const piece = pieces[node.index]
      return piece?.kind === 'annotation' ? <MarkChip key={key} {...piece} /> : <span key={key} />
    }
    case 'break':
      return <br key={key} />
    case 'rule':
      return <hr key={key} />
    case 'task':
      return (
        <input key={key} type="checkbox" checked={node.isDone} disabled aria-label={node.isDone ? 'Done' : 'To do'} />
      )
    case 'element':
      return <node.tag key={key}>{elementsOf(node.children, pieces)}</node.tag>
    case 'heading':
      // All of one level: the depth is that of the answer, not of the page.
      return (
        <h2 key={key} data-depth={node.depth}>
          {elementsOf(node.children, pieces)}
        </h2>
      )
    case 'ordered':
      return (
        <ol key={key} start={node.start}>
          {elementsOf(node.children, pieces)}
        </ol>
      )
    case 'link':
      return (
        <a key={key} href={node.href} title={node.href} target="_blank" rel="noopener noreferrer">
          {elementsOf(node.children, pieces)}
        </a>
      )
    case 'codeBlock':
      return (
        <div key={key} class="code-block">
          <div class="code-head">
            <span>{node.language}</span>
            <CopyButton text={() => node.text} title="Copy the code" />
          </div>
          <pre tabIndex={0}>
            <code>{elementsOf(node.children, pieces)}</code>
          </pre>
        </div>
      )
    case 'table':
      return (
        <div key={key} class="markdown-table" tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>
              <tr>{node.head.map((cell, index) => cellOf(cell, pieces, index, 'th'))}</tr>
            </thead>
            <tbody>
              {node.rows.map((row, number) => (
                <tr key={number}>{row.map((cell, index) => cellOf(cell, pieces, index, 'td'))}</tr>
              ))}
            </tbody>
          </table>
        </div>
      )
  }
}

function cellOf({ align, children }: TableCell, pieces: Pieces, key: number, Tag: 'th' | 'td') {
  return (
    <Tag key={key} {...(align === null ? {} : { 'data-align': align })}>
      {elementsOf(children, pieces)}
    </Tag>
  )
}
