"""Function calling in the format of the chat template: tools in the system turn, requests, calls, results.

A tool has a name, parameters and ways to ask for it. Each prompt varies the names of functions and parameters (synonyms,
letter case, prefixes) and can replace some tools with made-up ones, so the model must copy names from the prompt. Some tools
are used only in the evaluation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .chat import OFF_TOPIC, small_talk
from .more_requests import MORE_REQUESTS
from .phrasings import Split, in_some_style
from .world.text import WORDS, made_up_word

INTRODUCTION = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
CLOSING = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n"
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
NO_TOOL = "I have no tool for that."

CITIES = "Paris London Berlin Rome Madrid Tokyo Oslo Cairo Lima Delhi Boston Vienna Prague Athens Dublin Zurich Milan Seoul Toronto Chicago".split()
NAMES = "Anna Ben Carla David Emma Felix Grace Henry Iris Jack Karen Leo Maria Nina Oscar Paula Robert Sara Tom Vera".split()
ROOMS = ["kitchen", "bedroom", "office", "hall", "garage", "bathroom", "living room", "garden", "cellar", "attic"]
COLOURS = "red green blue yellow orange purple pink white".split()
DEVICES = ["lamp", "heater", "fan", "radio", "television", "printer", "camera", "robot", "oven", "alarm"]
LANGUAGES = "German French Spanish Italian Japanese Polish Dutch Greek".split()
FOODS = "pizza soup salad rice pasta bread cake tea coffee juice".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def _of(values: list[str]) -> Callable[[random.Random], str]:
    """Draws one of the values. Where values are capitalised, one in eight is a made-up word instead."""
    return lambda rng: made_up_word(rng).capitalize() if values[0][0].isupper() and rng.random() < 0.12 else rng.choice(values)


def _number(low: int, high: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.randint(low, high)


def _words(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4)))


def _time(rng: random.Random) -> str:
    return f"{rng.randint(0, 23)}:{rng.choice((0, 15, 30, 45)):02d}"


def _expression(rng: random.Random) -> str:
    return f"{rng.randrange(200)} {rng.choice('+-*/')} {rng.randrange(1, 100)}"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a tool: its possible names, its JSON type, and a function that draws its value."""

    names: tuple[str, ...]
    type: str
    value: Callable[[random.Random], Any]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A function. `requests` have one placeholder per parameter: {0}, {1}, ..."""

    names: tuple[str, ...]
    description: str
    parameters: tuple[Parameter, ...]
    requests: tuple[str, ...]
    held_out_requests: tuple[str, ...]
    result: Callable[[random.Random], tuple[Any, str]] | None = None  # Draws what the function returns, and what the model then says.
    more_requests: tuple[str, ...] = ()  # For training only.


def _parameter(names: str, value: Callable[[random.Random], Any], type_: str = "string", choices: list[str] | None = None) -> Parameter:
    return Parameter(tuple(names.split()), type_, value, tuple(choices or ()))


def _tool(names: str, description: str, parameters: list[Parameter], requests: str, held_out: str, result: Any = None) -> Tool:
    all_names = tuple(names.split())
    return Tool(all_names, description, tuple(parameters), tuple(requests.split("|")), tuple(held_out.split("|")), result, MORE_REQUESTS.get(all_names[0], ()))


def _weather(rng: random.Random) -> tuple[Any, str]:
    degrees, sky = rng.randint(-10, 38), rng.choice(("sunny", "cloudy", "rainy", "windy", "snowy", "foggy"))
    return rng.choice(
        (
            ({"temperature": degrees, "condition": sky}, f"It is {sky} with {degrees} degrees."),
            ({"condition": sky}, f"It is {sky}."),
            (sky, f"It is {sky}."),
            ({"temperature": degrees}, f"It is {degrees} degrees."),
        )
    )


def _value(key: str, text: str, make: Callable[[random.Random], Any]) -> Callable[[random.Random], tuple[Any, str]]:
    def result(rng: random.Random) -> tuple[Any, str]:
        value = make(rng)
        return (value if rng.random() < 0.4 else {key: value}), text.format(value)

    return result


CITY = _parameter("city location place town", _of(CITIES))
PERSON = _parameter("name person to recipient contact", _of(NAMES))
ROOM = _parameter("room place area location", _of(ROOMS))
TOOLS = (
    _tool("get_weather weather current_weather fetch_weather", "Get the current weather of a city.", [CITY],
          "What is the weather in {0}?|How is the weather in {0}?|Weather in {0}?|Is it raining in {0}?|Tell me the weather of {0}.|What's the weather like in {0}?|Will I need a coat in {0}?|Check the weather in {0}.",
          "Find out how the weather is in {0}.|Do I need an umbrella in {0}?", _weather),
    _tool("get_time local_time clock current_time", "Get the local time of a city.", [CITY],
          "What time is it in {0}?|Tell me the time in {0}.|Time in {0}?|How late is it in {0}?|What is the local time in {0}?|Get the time in {0}.",
          "Which time do they have in {0}?", _value("time", "It is {}.", _time)),
    _tool("set_lamp set_light change_light light_color", "Set the colour of the lamp.", [_parameter("color colour", _of(COLOURS), choices=COLOURS)],
          "Turn on the {0} lamp.|Make the lamp {0}.|Set the lamp to {0}.|Change the light to {0}.|I want {0} light.|The lamp should be {0}.|Switch the light to {0}.|{0} light please",
          "Could the light become {0}?|Let the lamp shine {0}."),
    _tool("turn_on switch_on power_on start_device", "Turn on a device.", [_parameter("device name item", _of(DEVICES))],
          "Turn on the {0}.|Switch on the {0}.|Start the {0}.|Turn the {0} on.|Power on the {0}.|Switch the {0} on.|I need the {0} on.",
          "Get the {0} going.|The {0} should be on."),
    _tool("turn_off switch_off power_off stop_device", "Turn off a device.", [_parameter("device name item", _of(DEVICES))],
          "Turn off the {0}.|Switch off the {0}.|Stop the {0}.|Turn the {0} off.|Power off the {0}.|Switch the {0} off.|I don't need the {0} any more.",
          "Shut the {0} down.|The {0} should be off."),
    _tool("send_message message write_message text_person", "Send a message to a person.", [PERSON, _parameter("text message body content", _words)],
          'Send "{1}" to {0}.|Tell {0}: {1}|Write to {0}: {1}|Message {0}: {1}|Send {0} the message "{1}".|Text {0} "{1}".|Send a message to {0} that says "{1}".',
          'Let {0} know: {1}|Drop {0} a line: "{1}".'),
    _tool("call_person call phone dial", "Call a person by phone.", [PERSON],
          "Call {0}.|Phone {0}.|Ring {0}.|Dial {0}.|I want to talk to {0}.|Please call {0}.|Make a call to {0}.",
          "Give {0} a ring.|Get {0} on the line."),
    _tool("set_timer timer start_timer countdown", "Start a timer.", [_parameter("minutes duration time length", _number(1, 90), "integer")],
          "Set a timer for {0} minutes.|Timer {0} minutes|Start a {0} minute timer.|Wake me in {0} minutes.|Remind me in {0} minutes.|Count down {0} minutes.|Give me a timer of {0} minutes.",
          "Ring after {0} minutes.|I need {0} minutes on the clock."),
    _tool("play_music play play_song music_player", "Play music.", [_parameter("title song query track", _words)],
          'Play "{0}".|Play the song {0}.|I want to hear {0}.|Put on {0}.|Play {0}.|Start the song "{0}".|Let me hear "{0}".',
          'Can we listen to "{0}"?|Put the song {0} on.'),
    _tool("search search_web web_search find_page", "Search the web.", [_parameter("query text q search_text", _words)],
          'Search for {0}.|Search the web for "{0}".|Look up {0}.|Find pages about {0}.|Google {0}.|Search: {0}|Look for "{0}" on the web.',
          "What does the web say about {0}?|Find {0} online.", _value("title", "I found {}.", _words)),
    _tool("calculate calculator compute evaluate", "Calculate an expression.", [_parameter("expression formula input term", _expression)],
          "What is {0}?|Calculate {0}.|Compute {0}.|How much is {0}?|{0} = ?|Work out {0}.|Solve {0}.",
          "Figure out {0}.|What do I get for {0}?", _value("result", "The result is {}.", _number(0, 5000))),
    _tool("translate translate_text translator", "Translate a text.", [_parameter("text words input", _words), _parameter("language target to", _of(LANGUAGES))],
          'Translate "{0}" to {1}.|Translate "{0}" into {1}.|What is "{0}" in {1}?|Say "{0}" in {1}.|How do you say "{0}" in {1}?|Put "{0}" into {1}.',
          'I need "{0}" in {1}.|Give me the {1} for "{0}".', _value("translation", "It is {}.", made_up_word)),
    _tool("set_temperature heating set_heating thermostat", "Set the temperature of a room.", [ROOM, _parameter("degrees temperature value celsius", _number(12, 28), "integer")],
          "Set the {0} to {1} degrees.|Make the {0} {1} degrees.|Heat the {0} to {1} degrees.|{1} degrees in the {0} please|I want {1} degrees in the {0}.|Set the temperature of the {0} to {1}.",
          "Bring the {0} to {1} degrees.|The {0} should have {1} degrees."),
    _tool("open_door unlock open_gate unlock_door", "Open a door.", [ROOM],
          "Open the {0} door.|Open the door of the {0}.|Unlock the {0}.|Open the {0}.|Unlock the door to the {0}.|Let me into the {0}.",
          "The {0} door should be open.|Make the {0} door open."),
    _tool("book_table reserve_table reservation book_restaurant", "Book a table in a restaurant.",
          [_parameter("people guests persons count", _number(1, 12), "integer"), _parameter("time at hour", _time)],
          "Book a table for {0} at {1}.|Reserve a table for {0} people at {1}.|Table for {0} at {1}|I need a table for {0} at {1}.|At {1} we want to eat, {0} people. Book a table.|Get a table at {1} for {0} persons.",
          "We are {0} and come at {1}. Reserve a table.|Can you get us {0} seats at {1}?"),
    _tool("create_event add_event calendar new_event", "Add an event to the calendar.", [_parameter("title name event text", _words), _parameter("day date weekday", _of(DAYS))],
          'Add "{0}" on {1}.|Put "{0}" into my calendar on {1}.|Create the event "{0}" on {1}.|On {1} I have "{0}".|Plan "{0}" for {1}.|New event on {1}: {0}|Schedule "{0}" for {1}.',
          'Note "{0}" for {1}.|My calendar should have "{0}" on {1}.'),
    _tool("move_robot move drive go", "Move the robot.", [_parameter("direction way", _of(["forward", "back", "left", "right"]), choices=["forward", "back", "left", "right"]), _parameter("steps distance meters amount", _number(1, 50), "integer")],
          "Move {1} steps {0}.|Go {0} {1} steps.|Drive {1} meters {0}.|Go {1} steps {0}.|{1} steps {0} please|Move the robot {0} by {1}.",
          "Walk {1} steps {0}.|The robot should go {0}, {1} steps."),
    _tool("set_volume volume sound_level", "Set the volume.", [_parameter("level volume value percent", _number(0, 100), "integer")],
          "Set the volume to {0}.|Volume {0}|Make it {0} percent loud.|Turn the volume to {0}.|Change the volume to {0} percent.|I want volume {0}.",
          "Bring the sound to {0}.|Let it play at {0} percent."),
    _tool("get_price price stock_price lookup_price", "Get the price of an article.", [_parameter("item article product name", _of(FOODS))],
          "How much is the {0}?|What does {0} cost?|What is the price of {0}?|Price of {0}?|Tell me the price of the {0}.|How expensive is {0}?",
          "What do I pay for {0}?|Look up what {0} costs.", _value("price", "It costs {}.", _number(1, 99))),
    _tool("take_photo photo snapshot camera_capture", "Take a photo with the camera.", [],
          "Take a photo.|Take a picture.|Make a photo.|Use the camera.|Take a snapshot.|Shoot a photo now.",
          "Snap a picture with the camera.|I want a new photo."),
    _tool("set_mode mode night_mode enable_mode", "Switch a mode on or off.", [_parameter("enabled on active", lambda rng: rng.random() < 0.5, "boolean")],
          "Switch the mode {0}.|Turn the mode {0}.|Mode {0}|I want the mode {0}.|Please turn the mode {0}.",
          "The mode should be {0}.|Have the mode {0}."),
)  # fmt: skip
# For training only: the more kinds of requests there are, the less the model can rely on how a request sounds.
MORE_TOOLS = (
    _tool("send_email email write_email mail", "Send an e-mail to a person.", [PERSON, _parameter("subject about topic", _words)],
          'Mail {0} about {1}.|Write an e-mail to {0} about {1}.|E-mail {0} with the subject "{1}".|Send {0} a mail about {1}.|{0} should get an e-mail about {1}.|Compose a mail to {0}, subject {1}.', ""),
    _tool("take_note note add_note write_note", "Write a note.", [_parameter("text note content", _words)],
          'Note: {0}|Take a note: {0}|Write down "{0}".|Jot down {0}.|Make a note that says "{0}".|Remember this: {0}', ""),
    _tool("get_news news headlines latest_news", "Get the news on a topic.", [_parameter("topic subject about", _words)],
          "What is new about {0}?|News about {0}?|Give me the news on {0}.|Any headlines on {0}?|What happened with {0}?|Read me the latest on {0}.", "", _value("headline", "The news: {}.", _words)),
    _tool("get_route route navigate directions", "Find the way from one city to another.", [_parameter("from start origin", _of(CITIES)), _parameter("to destination target", _of(CITIES))],
          "How do I get from {0} to {1}?|Find the way from {0} to {1}.|Route from {0} to {1}|Navigate from {0} to {1}.|I am in {0} and must go to {1}. Which way?|Directions to {1} from {0}, please.", ""),
    _tool("buy_ticket ticket book_ticket get_tickets", "Buy train tickets.", [_parameter("city destination to", _of(CITIES)), _parameter("count number tickets amount", _number(1, 9), "integer")],
          "Buy {1} tickets to {0}.|I need {1} tickets to {0}.|{1} tickets for the train to {0}|Get me {1} train tickets to {0}.|We are {1} and take the train to {0}. Buy tickets.", ""),
    _tool("open_app start_app launch run_app", "Open an app.", [_parameter("app name program", made_up_word)],
          "Open the app {0}.|Start the app {0}.|Launch {0}.|Run the program {0}.|I want to use the app {0}.|Bring up {0}.", ""),
    _tool("lock_door lock lock_room close_door", "Lock a door.", [ROOM],
          "Lock the {0}.|Lock the {0} door.|Lock the door of the {0}.|The {0} must be locked.|Make sure that the {0} is locked.|Close and lock the {0}.", ""),
    _tool("set_brightness brightness dim dim_light", "Set the brightness of the screen.", [_parameter("percent level value brightness", _number(0, 100), "integer")],
          "Set the brightness to {0}.|Brightness {0}|Dim the screen to {0} percent.|Make the screen {0} percent bright.|I want a brightness of {0} percent.|Turn the brightness to {0}.", ""),
    _tool("define definition dictionary lookup_word", "Explain a word.", [_parameter("word term text", made_up_word)],
          "What does {0} mean?|Define {0}.|What is the meaning of {0}?|Explain the word {0}.|Look up the word {0}.|Definition of {0}?", "", _value("meaning", "It means {}.", _words)),
    _tool("pick_up grab grasp take_object", "Pick up an object with the arm.", [_parameter("color colour", _of(COLOURS)), _parameter("shape object kind", _of("circle square triangle star diamond cross ring heart".split()))],
          "Pick up the {0} {1}.|Grab the {0} {1}.|Take the {0} {1}.|Lift the {0} {1}.|Get hold of the {0} {1}.|The arm should take the {0} {1}.", ""),
    _tool("stop_robot stop halt emergency_stop", "Stop the robot at once.", [],
          "Stop the robot.|Halt!|Stop moving.|Do not move any more.|Emergency stop|Stand still.", ""),
    _tool("go_home dock return_to_dock charge", "Drive the robot to its dock.", [],
          "Go back to your dock.|Drive home.|Return to the dock.|Go and charge.|Back to the charger.|Go home.", ""),
    _tool("get_battery battery battery_level power_status", "Get the battery level.", [],
          "How full is the battery?|Battery?|What is the battery level?|How much power is left?|Check the battery.|Is the battery low?", "", _value("percent", "The battery is at {} percent.", _number(1, 100))),
    _tool("list_files files show_files directory", "List the files of a folder.", [_parameter("folder path directory", made_up_word)],
          "List the files in {0}.|What is in the folder {0}?|Show the files of {0}.|Which files does {0} hold?|Contents of the folder {0}?|Look into the folder {0}.", "", _value("files", "There is {}.", made_up_word)),
    _tool("pause pause_music stop_music", "Pause the music.", [],
          "Pause the music.|Stop the music.|No more music now.|Hold the song.|Pause.|Silence, please.", ""),
    _tool("next_song skip next_track skip_song", "Go on to the next song.", [],
          "Next song.|Skip this song.|Play the next one.|Go on to the next track.|I do not like this song. Skip it.|Next!", ""),
    _tool("convert_money convert exchange currency", "Convert an amount of euros.", [_parameter("amount value euros", _number(1, 999), "integer"), _parameter("currency to target", _of("dollars pounds yen francs crowns".split()))],
          "How much are {0} euros in {1}?|Convert {0} euros to {1}.|{0} euros in {1}?|Change {0} euros into {1}.|What do I get in {1} for {0} euros?|Exchange {0} euros for {1}.", "", _value("amount", "It is {}.", _number(1, 9999))),
    _tool("set_speed speed drive_speed velocity", "Set how fast the robot drives.", [_parameter("speed value percent level", _number(1, 100), "integer")],
          "Drive at speed {0}.|Set the speed to {0}.|Speed {0}|Go at {0} percent speed.|The robot should drive at {0}.|I want a speed of {0}.", ""),
)  # fmt: skip
# Tools that no training prompt contains.
HELD_OUT_TOOLS = (
    _tool("order_food order buy_food", "Order something to eat.", [_parameter("dish food meal", _of(FOODS)), _parameter("amount number portions", _number(1, 9), "integer")],
          "Order {1} portions of {0}.|I want {1} times {0}.", "Order {1} portions of {0}.|Please order {0}, {1} portions."),
    _tool("set_alarm alarm_clock wake_up", "Set the alarm clock.", [_parameter("time at hour", _time)],
          "Set an alarm for {0}.|Wake me at {0}.", "Set an alarm for {0}.|Wake me at {0}."),
    _tool("clean_room vacuum clean", "Send the vacuum cleaner to a room.", [ROOM],
          "Clean the {0}.|Vacuum the {0}.", "Clean the {0}.|Vacuum the {0}."),
)  # fmt: skip
HELD_OUT_WORDS = {"food", "room"}  # The nouns of those tools.
NATURAL = 0.5  # Share of the made-up tools whose requests do not name their parameters.
NEAR = 0.5  # Share of them that have the verb or noun of another tool of the prompt, so the model must read the whole name.
VERBS = (
    "start stop check scan paint open close lock count fill load save print sort mark move test fetch list show hide draw cut sell send watch lift push rename copy delete find add remove read pack weigh "
    "set get make take give bring turn put call play write build fix rent lend drop store sign share post plan pick hold join split mix heat cool wash dry feed train hire book pay sum guess track log run reset update "
    "block allow enable report repair replace return record reserve request register cancel confirm deliver inspect measure schedule"
).split()
WHAT = "name value text size number color label mode target source id key tag note level speed place title user file kind unit amount path group code state topic part".split()
VALUES: dict[str, Callable[[random.Random], Any]] = {
    "string": lambda rng: rng.choice((_words, made_up_word, _time, _of(NAMES), _of(CITIES), lambda r: made_up_word(r).capitalize()))(rng),
    "integer": lambda rng: rng.randrange(10 ** rng.randint(1, 4)),
    "boolean": lambda rng: rng.random() < 0.5,
}


def _verb_and_noun(rng: random.Random, near: tuple[str, str] | None) -> tuple[str, str]:
    """Draws the verb and the noun of a made-up function. With `near`, exactly one of the two is taken from there."""
    if near:
        verb, noun = _verb_and_noun(rng, None)
        kept = (near[0], noun) if rng.random() < 0.5 else (verb, near[1])
        return kept if kept != near else _verb_and_noun(rng, near)
    return made_up_word(rng) if rng.random() < 0.15 else rng.choice(VERBS), made_up_word(rng) if rng.random() < 0.4 else rng.choice([word for word in WORDS if word not in HELD_OUT_WORDS])


def made_up_tool(rng: random.Random, near: tuple[str, str] | None = None) -> Tool:
    """A made-up function. Its name and description say what it does; requests give its arguments, often with parameter names."""
    verb, noun = _verb_and_noun(rng, near)
    names = [made_up_word(rng) if rng.random() < 0.15 else name for name in rng.sample(WHAT, rng.choices((0, 1, 2, 3), weights=(8, 45, 35, 12))[0])]
    types = rng.choices(("string", "integer", "boolean"), weights=(60, 30, 10), k=len(names))
    parameters = tuple(Parameter((name,), type_, VALUES[type_]) for name, type_ in zip(names, types, strict=True))
    slots = [f"{{{index}}}" for index in range(len(names))]
    if len(names) == 1 and types[0] != "boolean":
        ends = (f" {slots[0]}", f' "{slots[0]}"', f" for {slots[0]}", f" to {slots[0]}", f": {slots[0]}", f" with {names[0]} {slots[0]}", f", {names[0]} {slots[0]}")
    else:
        said = [f"{name} {slot}" for name, slot in zip(names, slots, strict=True)]
        quoted = [f'{name} "{slot}"' if type_ == "string" else part for name, slot, type_, part in zip(names, slots, types, said, strict=True)]
        listed = ", ".join(rng.sample(said, len(said)))
        ends = (f" with {' and '.join(said)}", f", {listed}", f": {listed}", f" ({listed})", f" with {', '.join(quoted)}") if said else ("",)
    subject = rng.choice((f"the {noun}", f"a {noun}", noun))
    starts = (f"{verb.capitalize()} {subject}", f"Please {verb} {subject}", f"I want to {verb} {subject}", f"Can you {verb} {subject}", f"{verb} {subject}", f"It is time to {verb} {subject}")
    requests = tuple(start + end + rng.choice(("", ".", ".")) for start in starts for end in ends)
    return Tool((f"{verb}_{noun}",), f"{verb.capitalize()} {subject}.", parameters, requests, requests)


@dataclass(frozen=True)
class Slot:
    """A parameter that its value identifies, and the phrases by which a request mentions the value."""

    parameter: Parameter
    phrases: tuple[str, ...]


def _slot(names: str, value: Callable[[random.Random], Any], phrases: str, type_: str = "string") -> Slot:
    return Slot(_parameter(names, value, type_), tuple(phrases.split("|")))


COUNT = _slot("count number amount times quantity", _number(1, 99), "{} times|{} of them|times {}", "integer")
THING = _slot("item object thing product article", _of(WORDS), "the {}|a {}|{}|of the {}")
SLOTS = (
    _slot("person name recipient who contact user", _of(NAMES), "to {}|for {}|with {}|from {}"),
    _slot("city place location town", _of(CITIES), "in {}|to {}|for {}|from {}|near {}"),
    _slot("day date when weekday", _of(DAYS), "on {}|for {}|until {}|this {}"),
    _slot("color colour shade paint", _of(COLOURS), "in {}|as {}|in the color {}"),
    _slot("time at hour clock", _time, "at {}|for {}|by {}|before {}"),
    _slot("room area zone", _of(ROOMS), "in the {}|for the {}|of the {}|from the {}"),
    _slot("language lang target", _of(LANGUAGES), "in {}|to {}|into {}"),
    _slot("text content words message note", _words, '"{}"|that says "{}"|with the text "{}"|: {}'),
    _slot("level value percent degrees speed", _number(0, 100), "to {}|at {}|at {} percent|level {}", "integer"),
    COUNT,
    THING,
)
UNITS = "pieces boxes bags cups packs units sets".split()


def natural_tool(rng: random.Random, near: tuple[str, str] | None = None) -> Tool:
    """A made-up function whose requests do not name parameters. Each value shows which parameter it belongs to; the order is random."""
    verb, noun = _verb_and_noun(rng, near)
    slots = rng.sample(SLOTS, rng.choices((1, 2, 3), weights=(35, 50, 15))[0])
    if rng.random() < 0.2:
        slots = [THING, COUNT]
    requests: list[str] = []
    for _ in range(4):
        places = [(slot, f"{{{index}}}") for index, slot in enumerate(slots)]
        rng.shuffle(places)
        start = rng.choice(("{}", "Please {}", "I want to {}", "Can you {}", "Could you {}", "I would like to {}", "We have to {}", "{} please:"))
        subject = rng.choice((f" the {noun}", f" a {noun}", f" {noun}"))
        named = dict(places)
        if THING in named and COUNT in named and rng.random() < 0.7:
            thing, count, unit = named.pop(THING), named.pop(COUNT), rng.choice(UNITS) if rng.random() < 0.6 else made_up_word(rng)
            subject = rng.choice((f" {count} {unit} of {thing}", f" {count} {thing}", f" {thing}, {count} {unit}", f" {count} times {thing}", f" {thing}: {count}"))
        elif THING in named and rng.random() < 0.6:
            subject = " " + rng.choice(THING.phrases[:3]).format(named.pop(THING))
        said = start.format(verb) + subject + "".join(" " + rng.choice(slot.phrases).format(place) for slot, place in named.items())
        requests.append(said[0].upper() + said[1:] + rng.choice(("", ".", ".")))
    return Tool((f"{verb}_{noun}",), f"{verb.capitalize()} {noun}.", tuple(slot.parameter for slot in slots), tuple(requests), tuple(requests))


def new_tool(rng: random.Random, others: list[Tool] | None = None) -> Tool:
    """A made-up function of either sort. `others`: the ones already made for this prompt; the new one may resemble one of them."""
    near = None
    if others and rng.random() < NEAR:
        verb, noun = rng.choice(others).names[0].split("_")
        near = verb, noun
    return natural_tool(rng, near) if rng.random() < NATURAL else made_up_tool(rng, near)


PREFIXES = ("", "", "", "", "", "", "home.", "api_", "my_", "do_")


@dataclass(frozen=True)
class Offer:
    """A tool with the names that it has in one prompt."""

    tool: Tool
    name: str
    parameters: tuple[str, ...]

    def call(self, values: list[Any]) -> str:
        arguments = dict(zip(self.parameters, values, strict=True))
        return f'<tool_call>\n{{"name": "{self.name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'

    def schema(self, rng: random.Random, terse: bool) -> dict[str, Any]:
        """The tool in the format of `tools` in a request; `terse` leaves out descriptions."""
        properties: dict[str, Any] = {}
        for name, parameter in zip(self.parameters, self.tool.parameters, strict=True):
            properties[name] = {"type": parameter.type}
            if parameter.choices and rng.random() < 0.5:
                properties[name]["enum"] = list(parameter.choices)
            elif not terse and rng.random() < 0.5:
                properties[name]["description"] = f"The {name}"
        parameters: dict[str, Any] = {"type": "object", "properties": properties}
        if rng.random() < 0.7:
            parameters["required"] = list(self.parameters)
        function: dict[str, Any] = {"name": self.name}
        if not terse:
            function["description"] = self.tool.description
        return {"type": "function", "function": function | {"parameters": parameters}}


def _said(value: Any) -> Any:
    return ("on" if value else "off") if isinstance(value, bool) else value


def _spaced(schema: dict[str, Any]) -> str:
    return json.dumps(schema)


def _compact(schema: dict[str, Any]) -> str:
    return json.dumps(schema, separators=(",", ":"))


def _compact_parameters(schema: dict[str, Any]) -> str:
    function = schema["function"]
    outer = json.dumps(schema | {"function": function | {"parameters": None}})
    return outer.removesuffix("null}}") + _compact(function["parameters"]) + "}}"


class ToolPrompt:
    """A prompt with up to four tools, and requests for them."""

    def __init__(self, rng: random.Random, split: Split, made_up: float = 0.0) -> None:
        """`made_up`: share of the tools that are made up for this prompt; 0 in the evaluation."""
        self.made_up = made_up
        self.known = TOOLS + MORE_TOOLS if made_up and split is not Split.HELD_OUT else TOOLS
        pool = self.known if split is not Split.HELD_OUT or rng.random() < 0.6 else TOOLS + HELD_OUT_TOOLS
        # A prompt with a single tool teaches nothing about choosing between tools.
        chosen = rng.sample(pool, rng.choices((1, 2, 3, 4), weights=(18, 42, 25, 15) if made_up else (50, 32, 12, 6))[0])
        if pool is not self.known and not any(tool in HELD_OUT_TOOLS for tool in chosen):
            chosen[0] = rng.choice(HELD_OUT_TOOLS)
        if made_up:
            new: list[Tool] = []
            for index in range(len(chosen)):
                if rng.random() < made_up:
                    chosen[index] = new_tool(rng, new)
                    new.append(chosen[index])
        self.offers = [self._offer(rng, tool) for tool in chosen]
        terse = rng.random() < 0.2
        self.schemas = [offer.schema(rng, terse) for offer in self.offers]
        # The template writes the outer part with spaces, and the parameters exactly as the client wrote them.
        write = rng.choices((_spaced, _compact_parameters, _compact), weights=(50, 40, 10))[0]
        lines = "".join("\n" + write(schema) for schema in self.schemas)
        self.system = INTRODUCTION + lines + CLOSING

    @staticmethod
    def _offer(rng: random.Random, tool: Tool) -> Offer:
        name = rng.choice(PREFIXES) + rng.choice(tool.names)
        if rng.random() < 0.15:
            head, *rest = name.split("_")
            name = head + "".join(word.capitalize() for word in rest)
        taken: list[str] = []
        for parameter in tool.parameters:
            taken.append(rng.choice([option for option in parameter.names if option not in taken]))
        return Offer(tool, name, tuple(taken))

    def request(self, rng: random.Random, split: Split) -> tuple[str, str, Offer]:
        """A request in words, the call that answers it, and the tool that is called."""
        offer = rng.choice(self.offers)
        lines = self._ways_to_ask(offer.tool, split)
        values = [parameter.value(rng) for parameter in offer.tool.parameters]
        return rng.choice(lines).format(*map(_said, values)), offer.call(values), offer

    def _ways_to_ask(self, tool: Tool, split: Split) -> tuple[str, ...]:
        if split is Split.HELD_OUT:
            return tool.held_out_requests
        return tool.requests + (tool.more_requests if self.made_up else ())

    def ask(self, rng: random.Random, split: Split) -> tuple[str, str, str]:
        """Returns task, question (with earlier turns) and answer."""
        choice = rng.random()
        question, call, offer = self.request(rng, split)
        if choice < 0.58:
            return "tool call", in_some_style(rng, question, keep_case=True), call
        if choice < 0.70:
            other, second, _ = self.request(rng, split)
            if second == call:
                return "tool call", question, call
            joined = rng.choice(("{} And {}", "{} Then {}", "{} {}", "{} Also: {}", "{}\n{}")).format(question, other)
            return "parallel calls", joined, f"{call}\n{second}"
        if choice < 0.75:
            talk, answer = small_talk(rng, split)
            if answer != OFF_TOPIC:  # A tool might handle the off-topic requests.
                return "chat with tools", talk, answer
        if choice < 0.83:
            absent = [tool for tool in self.known if all(tool is not offer.tool for offer in self.offers)]
            tool = new_tool(rng) if self.made_up and rng.random() < self.made_up else rng.choice(absent)
            values = [parameter.value(rng) for parameter in tool.parameters]
            lines = self._ways_to_ask(tool, split)
            return "no tool", rng.choice(lines).format(*map(_said, values)), NO_TOOL
        result, said = self._result(rng, offer)
        written = result if isinstance(result, str) else json.dumps(result)
        turns = (
            f"{question}<|im_end|>\n<|im_start|>assistant\n{call}<|im_end|>\n"
            f"<|im_start|>user\n<tool_response>\n{written}\n</tool_response>"
        )
        return "tool result", turns, said

    @staticmethod
    def _result(rng: random.Random, offer: Offer) -> tuple[Any, str]:
        if rng.random() < 0.12:
            reason = rng.choice(("not found", "timeout", "no connection", "not allowed", "unknown " + made_up_word(rng)))
            return rng.choice(({"error": reason}, f"error: {reason}")), f"That did not work: {reason}."
        if offer.tool.result:
            return offer.tool.result(rng)
        return rng.choice(("done", "ok", "OK", "success", {"ok": True}, {"status": "ok"}, {"success": True}, "Done.", "true")), "Done."
