import { FilesSection } from '../files/files-section.tsx'
import { serverSection } from '../mode-choice.ts'
import { GetSection } from '../models/get-section.tsx'
import { ModelsSection } from '../models/models-section.tsx'
import { Tabs } from '../widgets/tabs.tsx'
import { LoadSection } from './load-section.tsx'

const SECTIONS = [
  { id: 'models', title: 'Models', Content: ModelsSection },
  { id: 'get', title: 'Get a model', Content: GetSection },
  { id: 'load', title: 'Load', Content: LoadSection },
  { id: 'files', title: 'Files', Content: FilesSection },
] as const

/** The server's models, how busy it is, and the files of the organisation. */
export function ServerPanel() {
  return (
    <Tabs
      label="Server"
      tabs={SECTIONS}
      chosen={serverSection.value}
      onChoose={(id) => {
        serverSection.value = id
      }}
    />
  )
}
