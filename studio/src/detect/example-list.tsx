import { useLayoutEffect, useRef } from 'preact/hooks'
import { colourOf } from '../marks/colours.ts'
import { lighting } from '../marks/mark.ts'
import { attachments, select } from '../media/attachments.ts'
import { IconButton } from '../widgets/button.tsx'
import { newExample } from './stage.ts'
import { changeExample, type Example, examples, negatives, removeExample, toggleNegative } from './targets.ts'

/** Boxes around objects like those to find, and pictures that show none of them. */
export function ExampleList() {
  const shown = examples.value.filter(({ media }) => attachments.value.some(({ id }) => id === media))
  if (shown.length === 0 && negatives.value.length === 0) return null
  return (
    <ul class="examples" aria-label="Examples">
      {shown.map((example) => (
        <ExampleRow key={example.id} example={example} />
      ))}
      {negatives.value.map(({ id, name, url }) => (
        <li key={id}>
          <button type="button" class="example-picture" aria-label={`Show ${name}`} onClick={() => select(id)}>
            <img src={url} alt="" />
          </button>
          <span>{name} shows none of them</span>
          <IconButton icon="close" label={`Search ${name} again`} onClick={() => toggleNegative(id)} />
        </li>
      ))}
    </ul>
  )
}

function ExampleRow({ example }: { readonly example: Example }) {
  const { id, media, label, left, top, right, bottom } = example
  const input = useRef<HTMLInputElement>(null)
  const isNew = newExample.value === id
  // Before the next key arrives.
  useLayoutEffect(() => {
    if (!isNew) return
    newExample.value = null
    input.current?.focus()
    input.current?.select()
  }, [isNew])
  const picture = attachments.value.find((one) => one.id === media)!
  return (
    <li style={{ '--mark': colourOf(label).fill }} {...lighting(id)}>
      <button
        type="button"
        class="example-picture"
        aria-label={`Show the example on ${picture.name}`}
        onClick={() => select(media)}
      >
        <img src={picture.url} alt="" />
        <span
          style={{
            left: `${(left / picture.width) * 100}%`,
            top: `${(top / picture.height) * 100}%`,
            width: `${((right - left) / picture.width) * 100}%`,
            height: `${((bottom - top) / picture.height) * 100}%`,
          }}
        />
      </button>
      <input
        ref={input}
        aria-label="Name of the example"
        value={label}
        onInput={({ currentTarget }) => changeExample(id, currentTarget.value)}
      />
      <IconButton icon="close" label={`Remove the example ${label}`} onClick={() => removeExample(id)} />
    </li>
  )
}
