import { model } from '../server/connection.ts'
import { ThinkButton } from '../widgets/ask-buttons.tsx'
import { Button } from '../widgets/button.tsx'
import { Segments } from '../widgets/fields/segments.tsx'
import { CategoryInput } from './category-input.tsx'
import { ExampleList } from './example-list.tsx'
import { CONFIDENCES } from './request.ts'
import { inScope, options, outputs, scope, search, startSearch } from './search.ts'
import { drawing, toggleDrawing } from './stage.ts'
import { isNegative, searchable, shownImage, toggleNegative } from './targets.ts'
import { shownVideo } from './tracks.ts'

const OUTPUTS = { box: 'Boxes', point: 'Points' } as const

/** What to find, where, and how. */
export function SearchForm() {
  const picture = shownImage.value
  const isRunning = search.value?.status === 'running'
  const many = searchable.value.length
  const isVideo = shownVideo.value !== null
  const canSearch = isVideo ? outputs.value.includes('box') : outputs.value.length > 0
  return (
    <form
      class="search-form"
      onSubmit={(event) => {
        event.preventDefault()
        if (!isRunning && inScope.value.length > 0 && canSearch) void startSearch()
      }}
    >
      <CategoryInput />
      <ExampleList />
      {picture !== null && (
        <div class="search-row">
          <Button
            kind="quiet"
            icon="detect"
            pressed={drawing.value === 'example'}
            title="Drag a box around an object like those to find"
            onClick={() => toggleDrawing('example')}
          >
            Show an example
          </Button>
          <Button
            kind="quiet"
            pressed={isNegative(picture.id)}
            title="This picture has none: an example of what not to find"
            onClick={() => toggleNegative(picture.id)}
          >
            Negative example
          </Button>
        </div>
      )}
      <div class="search-row">
        {outputs.value.length > 1 && !isVideo && (
          <Segments
            label="Find"
            value={options.value.output}
            choices={outputs.value.map((value) => ({ value, title: OUTPUTS[value] }))}
            onChoose={(output) => {
              options.value = { ...options.value, output }
            }}
          />
        )}
        {many > 1 && !isVideo && (
          <Segments
            label="Where"
            value={scope.value}
            choices={[
              { value: 'one', title: 'This picture' },
              { value: 'all', title: `All ${many}` },
            ]}
            onChoose={(value) => {
              scope.value = value
            }}
          />
        )}
        {!isVideo && (
          <Segments
            label="Confidence"
            value={options.value.confidence}
            choices={CONFIDENCES}
            onChoose={(confidence) => {
              options.value = { ...options.value, confidence }
            }}
          />
        )}
        <ThinkButton
          thinks={options.value.thinks}
          onChange={(thinks) => {
            options.value = { ...options.value, thinks }
          }}
        />
        <Button
          kind="primary"
          icon="detect"
          type="submit"
          disabled={isRunning || inScope.value.length === 0 || !canSearch}
        >
          {isVideo ? 'Follow' : 'Detect'}
        </Button>
      </div>
      {model.value && !canSearch && (
        <p class="empty">
          {model.value.id} finds no {isVideo ? 'boxes' : 'objects'}. Choose another model above.
        </p>
      )}
    </form>
  )
}
