import { colourOf } from '../marks/colours.ts'
import { TokenInput } from '../widgets/fields/token-input.tsx'
import { addCategories, categories, categoryDraft, removeCategory } from './targets.ts'

/** The names of what to find. */
export function CategoryInput() {
  return (
    <TokenInput
      id="categories"
      label="What to find"
      listLabel="Categories"
      tokens={categories.value}
      draft={categoryDraft.value}
      placeholder={categories.value.length === 0 ? 'cat, dog (empty finds everything)' : 'and…'}
      colourOf={(name) => colourOf(name).fill}
      onDraft={(text) => {
        categoryDraft.value = text
      }}
      onTake={(text) => {
        addCategories(text)
        categoryDraft.value = ''
      }}
      onRemove={(index) => removeCategory(categories.value[index]!)}
    />
  )
}
