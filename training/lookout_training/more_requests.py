"""More ways to ask for a tool, for training only. The evaluation keeps its own list of seen phrasings."""

from __future__ import annotations

# By the first name of the tool; placeholders as in its requests.
MORE_REQUESTS: dict[str, tuple[str, ...]] = {
    name: tuple(lines.split("|"))
    for name, lines in {
        "get_weather": (
            'Look up the weather for {0}.|Is it cold in {0}?|Is the sun shining in {0}?|Forecast for {0}|How warm is it in {0}?|Does it snow in {0} today?|I travel to {0}. What will the weather be?|{0} weather|'
            'What are the temperatures in {0}?|Does the sun shine in {0}?|Are there clouds over {0}?|Is it windy in {0}?|What should I wear in {0}?|How are things outside in {0}?|Weather report for {0}|Will it be wet in {0}?|Give me the weather, {0}.|I am off to {0}. Is it warm there?|Is there snow in {0}?|Is {0} sunny today?|How hot does it get in {0}?'
        ),
        "get_time": (
            'What does the clock say in {0}?|Is it late in {0}?|{0} time please|I call someone in {0}. What time is it there?|Is it night in {0}?|Show me the clock of {0}.|How many hours is it in {0}?|Current time of {0}|'
            'What hour is it in {0}?|Are people asleep in {0} now?|When it is noon here, what is it in {0}?|Is it morning in {0}?|I need the time for {0}.|Clock in {0}?|Time of day in {0}, please|Say what time it is in {0}.|How early is it in {0}?|What is the hour in {0} now?'
        ),
        "set_lamp": (
            'Light up in {0}.|Give me {0} light.|Paint the room with {0} light.|Put the lamp on {0}.|Let there be {0} light.|Could you make the light {0}?|The light must be {0}.|{0}, the lamp, please|'
            'Colour the lamp {0}.|I prefer {0} light.|Could I have {0} light?|Let the light be {0}.|Switch the lamp over to {0}.|Adjust the lamp to {0}.|Use {0} for the lamp.|Try {0} light.|Turn the light {0}.|My lamp should look {0}.|Can we have it {0} in here? The lamp, I mean.'
        ),
        "turn_on": (
            'Get the {0} started.|Let the {0} run.|Could you start the {0} for me?|The {0} must run now.|Activate the {0}.|Make the {0} go.|{0} on|Bring the {0} to life.|I would like the {0} to be on.|'
            'Fire up the {0}.|The {0}, on please|Let us use the {0}.|Can you put the {0} on?|Boot the {0}.|Set the {0} running.|Why is the {0} off? Start it.|I want to use the {0}.|Give the {0} power.|Have the {0} running.|Wake the {0}.'
        ),
        "turn_off": (
            'Deactivate the {0}.|Let the {0} rest.|Could you stop the {0} for me?|The {0} must not run any longer.|Cut the power of the {0}.|{0} off|I want the {0} to be quiet.|No more {0}, please.|Put the {0} to sleep.|'
            'End the {0}.|Can you put the {0} off?|Why is the {0} still on? Stop it.|I have finished with the {0}.|The {0} may stop now.|Stop the {0} from running.|Have the {0} off.|Kill the {0}.|The {0}, off please|We are done with the {0}.|Take the {0} off power.'
        ),
        "send_message": (
            'Inform {0}: {1}|{0} should know: {1}|Tell {0} that {1}.|Pass this on to {0}: {1}|Leave {0} a message: "{1}".|Answer {0}: {1}|Say "{1}" to {0}.|Get this to {0}: "{1}"|'
            'Write {0} this: {1}|A message for {0}: {1}|Give {0} the message "{1}".|{0} has to hear this: {1}|Message to {0}, "{1}"|Please forward "{1}" to {0}.|I want {0} to read "{1}".|Reply to {0} with "{1}".|Contact {0} and write {1}.|Deliver "{1}" to {0}.'
        ),
        "call_person": (
            'I have to speak with {0}.|Connect me with {0}.|Put me through to {0}.|Let me talk to {0}.|Get {0} on the phone.|Reach {0} by phone.|{0}, by phone, please|Make my phone call {0}.|'
            'Start a call with {0}.|I need to hear {0}.|Could you ring {0} for me?|Phone call to {0}|Try to reach {0}.|Put {0} on the phone.|Let us call {0}.|Have a call with {0}.|Speak to {0} by phone.|Please phone up {0}.|Can I speak to {0}?'
        ),
        "set_timer": (
            'In {0} minutes I must go.|Tell me when {0} minutes are over.|Beep in {0} minutes.|{0} minutes from now|Let me know after {0} minutes.|The eggs take {0} minutes.|Measure {0} minutes.|Give me {0} minutes.|'
            'Begin a {0} minute countdown.|Alert me in {0} minutes.|{0} minutes, then wake me.|Notify me after {0} minutes.|The cake needs {0} minutes.|Please time {0} minutes.|Set {0} minutes.|Make a noise in {0} minutes.|Timer for {0} min|When {0} minutes have passed, tell me.'
        ),
        "play_music": (
            'I would like some {0}.|Turn on the song {0}.|Music: {0}|Can you play {0}?|How about the song "{0}"?|Let us listen to {0}.|Next I want "{0}".|Make it play {0}.|'
            'Start "{0}".|I feel like {0}.|Put "{0}" on, please.|Can I hear {0}?|Sing me {0}.|Next song: {0}|Have {0} played.|Give us "{0}".|I love the song {0}. Play it.|Hit play on {0}.|We want to hear "{0}".'
        ),
        "search": (
            'Do a search for {0}.|Get me pages on {0}.|Who knows about {0}? Search.|Use the web to find {0}.|Information about {0}, please|See what there is about {0}.|Browse for {0}.|I need to read about {0}.|'
            'What can you find about {0}?|Search pages that mention {0}.|Go and look for {0}.|Is there anything on the internet about {0}?|I want to learn about {0}.|Research {0}.|Query: {0}|Find me something about {0}.|Find what is known on {0}.|Do some research on {0}.|Show me websites on {0}.'
        ),
        "calculate": (
            'Tell me {0}.|Give me the result of {0}.|{0}|Do the sum: {0}|I need {0}.|What does {0} give?|What comes out of {0}?|Evaluate {0}.|Let me know what {0} is.|'
            'Add it up: {0}|Is it hard to know {0}?|How many is {0}?|Do the maths: {0}|Quick, {0}?|The result of {0}, please|Can you do {0}?|Find {0}.|Determine {0}.|My homework is {0}.|Put {0} into the calculator.'
        ),
        "translate": (
            'Turn "{0}" into {1}.|The {1} word for "{0}", please|How would they say "{0}" in {1}?|Write "{0}" in {1}.|{1} for "{0}"?|My friend speaks {1}. What is "{0}"?|Tell me "{0}" in {1}.|In {1}: "{0}"|'
            '"{0}", but in {1}|What would "{0}" be in {1}?|Make "{0}" {1}.|Express "{0}" in {1}.|Give me "{0}" in {1}.|Please write down "{0}" in {1}.|Show me the {1} of "{0}".|From English to {1}: "{0}"|How is "{0}" said in {1}?|A translation of "{0}" into {1}, please'
        ),
        "set_temperature": (
            'Warm up the {0} to {1} degrees.|Get the {0} to {1} degrees.|The {0} needs {1} degrees.|Let the {0} be at {1} degrees.|Cool the {0} to {1} degrees.|It must be {1} degrees in the {0}.|{0}: {1} degrees|Keep the {0} at {1} degrees.|'
            'Adjust the {0} to {1} degrees.|Put the heating of the {0} at {1}.|Change the {0} to {1} degrees.|I am cold, make the {0} {1} degrees.|Raise the {0} to {1} degrees.|Let us have {1} degrees in the {0}.|Have the {0} at {1} degrees.|Temperature of the {0}: {1}|For the {0}, {1} degrees.|Lower the {0} to {1} degrees.'
        ),
        "open_door": (
            'I want to go into the {0}.|Let somebody into the {0}.|Could you open up the {0}?|The {0} is locked. Open it.|Get the {0} open.|{0} door open|I stand before the {0}. Open.|The door of the {0} must open.|'
            'Can I get into the {0}?|Give me access to the {0}.|Undo the lock of the {0}.|Open up the {0}, please.|Please open the door to the {0}.|I need to enter the {0}.|The door to the {0}, open it.|Let us into the {0}.|Would you open the {0}?|Open sesame, the {0}.'
        ),
        "book_table": (
            'We want to eat at {1} with {0} people.|Dinner for {0} at {1}|There are {0} of us. Book for {1}.|Ask for a table at {1}, {0} guests.|Lunch at {1} for {0} people, please book.|{0} guests come at {1}. They need a table.|Find a table for {0}, {1}.|'
            'Make a reservation for {0} at {1}.|Please reserve at {1} for {0}.|At {1} there will be {0} of us for dinner.|Supper for {0} at {1}|{0} persons, {1}, a table please|A table at {1} for {0} guests|We come at {1}, {0} people.|Book us in at {1}, {0} persons.|Keep a table for {0} people at {1}.|I invite people to dinner at {1}, {0} in all.'
        ),
        "create_event": (
            'Do not let me forget "{0}" on {1}.|There is "{0}" on {1}.|Write "{0}" down for {1}.|Keep {1} free for "{0}".|Mark {1} with "{0}".|{1}: "{0}"|Enter "{0}" for {1}.|We have "{0}" on {1}, save it.|'
            'I have "{0}" on {1}.|Make a date for "{0}" on {1}.|Set up "{0}" for {1}.|"{0}" takes place on {1}, remember it.|Save the date: {1}, "{0}"|Enter "{0}" on {1} in the calendar.|Block {1} for "{0}".|Fix "{0}" for {1}.|On {1}, "{0}". Please add.|Calendar: "{0}", {1}'
        ),
        "move_robot": (
            'Take {1} steps {0}.|Roll {0} for {1} meters.|Make {1} steps {0}.|Come {1} meters {0}.|Robot, {0} by {1}|I want you {1} steps {0}.|Get {1} meters {0}.|Step {0}, {1} times.|'
            'Travel {1} steps {0}.|Do {1} steps {0}.|Head {0} for {1} meters.|Run {1} meters {0}.|Take the robot {1} meters {0}.|{0}, {1} steps|Please go {0}, {1} meters.|Advance {1} steps {0}.|Let the robot roll {0}, {1} meters.|Get the robot {1} steps {0}.'
        ),
        "set_volume": (
            'Make the music {0} percent loud.|Sound at {0}|Too loud! Make it {0}.|I can hear nothing, go to {0} percent.|Turn it to {0}.|Volume at {0} percent please|Put the sound on {0}.|The volume must be {0}.|'
            'Change the loudness to {0}.|Raise the volume to {0}.|Lower the volume to {0}.|Set the sound to {0} percent.|Make it quieter, {0}.|Louder! {0} percent|{0} percent volume|Adjust the volume to {0}.|Put the loudness at {0}.|Use volume {0}.|Can you make it {0} loud?'
        ),
        "get_price": (
            'How much do they want for {0}?|Is {0} expensive?|Tell me what {0} costs.|I want to buy {0}. How much is it?|Cost of {0}?|What money do I need for {0}?|{0}, how much?|Find the price of {0}.|How dear is {0}?|'
            'Have you got the price of {0}?|What would {0} cost me?|What is the {0} worth?|Can I afford {0}? What is the price?|Is the {0} cheap?|Price check: {0}|How many euros for {0}?|What must I pay for the {0}?|Give me the price for {0}.|What do they charge for {0}?'
        ),
        "take_photo": (
            'Photograph this.|Let the camera take a picture.|Get me a picture from the camera.|Camera, please|I need a photograph.|Make a picture now.|Click!|Show me what the camera sees.|Capture this moment.|'
            'Shoot!|Get the camera to work.|Record a picture.|I would like a photograph taken.|Let us have a photo.|Make a snapshot.|Take one more picture.|Photo, please|Camera: one picture|A photograph, now|Picture time!|Do a photo.'
        ),
        "set_mode": (
            'Let the mode be {0}.|Make the mode {0}.|Change the mode to {0}.|Put the mode {0}.|Set it {0}.|Mode to {0}, please|Could you turn the mode {0}?|The mode must be {0}.|'
            'Get the mode {0}.|I would like to have the mode {0}.|Turn it {0}, the mode.|Can we have the mode {0}?|Now the mode goes {0}.|For the mode: {0}|{0} with the mode|Switch it {0}.|Keep the mode {0}.'
        ),
        "send_email": 'Start an e-mail to {0} on {1}.|{0} must get an e-mail on {1}.|Tell {0} by mail about {1}.|Send an email with the subject {1} to {0}.|Email for {0}: {1}|Mail to {0}: {1}',
        "take_note": "Keep this in mind: {0}|Store the note {0}.|New note: {0}|Put {0} in my notes.|Please note {0}.|Don't forget this: {0}|Record that {0}.",
        "get_news": 'What do the papers say about {0}?|Is there news on {0}?|I want the news about {0}.|Tell me what is going on with {0}.|Update me on {0}.|Latest on {0}',
        "get_route": 'Which way is it from {0} to {1}?|Guide me from {0} to {1}.|I drive from {0} to {1}. Show me the way.|What is the best way from {0} to {1}?|Lead me to {1}. I start in {0}.|From {0} to {1}: how?',
        "buy_ticket": 'I want to go to {0}, {1} tickets please.|Get {1} tickets for {0}.|Order {1} train tickets for {0}.|{1} of us go to {0} by train.|Purchase {1} tickets to {0}.|{1} seats on the train to {0}',
        "open_app": 'Open {0}.|Switch to the app {0}.|Get the app {0} up.|The program {0}, please|Have {0} start.|Show me the app {0}.',
        "lock_door": 'Nobody may enter the {0}. Lock it.|Shut and lock the {0}.|Keep the {0} locked.|Is the {0} open? Lock it.|Secure the {0}.|The {0} door, lock it please.',
        "set_brightness": 'The screen is too dark, {0} percent please.|Screen at {0} percent|Make it {0} percent bright.|Adjust the brightness to {0}.|Lower the brightness to {0}.|The screen should have {0} percent.',
        "define": "I don't know the word {0}.|What is meant by {0}?|What is a {0}?|Tell me what {0} means.|Meaning of {0}|The word {0}: what is it?",
        "pick_up": 'Bring me the {0} {1}.|Seize the {0} {1}.|I need the {0} {1}, pick it up.|Fetch the {0} {1}.|Close the gripper on the {0} {1}.|Hold the {0} {1}.',
        "stop_robot": 'Freeze!|Stay where you are.|No further!|Robot, stop!|Stop right now.|Cease all movement.|Hold it!',
        "go_home": 'Go to your charging station.|It is time to charge.|Return home.|Head back to the dock.|Drive to the charger.|You may go home now.',
        "get_battery": 'Tell me the battery level.|Do you need charging?|How long will the battery last?|How many percent does the battery have?|State of the battery?|Is there enough power?',
        "list_files": 'Which documents are in {0}?|Show me what {0} contains.|Give me the files of {0}.|What files are in {0}?|Directory {0}, please|ls {0}',
        "pause": 'Stop the music for a moment.|Hush!|Quiet, please.|Music off for now.|Interrupt the song.|Could you stop playing?',
        "next_song": 'Something else, please. Next.|Another song!|On to the next song.|Change the song.|I have heard this one. Next.|Jump to the next track.',
        "convert_money": 'I have {0} euros. How many {1} is that?|{0} euros to {1}|What are {0} euros worth in {1}?|Give me {1} for {0} euros.|Turn {0} euros into {1}.|How many {1} are {0} euros?',
        "set_speed": 'Go faster, {0} percent.|Slow down to {0}.|Make the speed {0}.|Move at speed {0}.|Change your speed to {0}.|Use speed {0} from now on.',
    }.items()
}  # fmt: skip
