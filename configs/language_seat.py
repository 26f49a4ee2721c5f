"""Seats of a run that teaches a language model: where the base model and the texts lie."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from configs.seat import Chair, Device, PathText
from configs.table import Count, Table

TofuForget: TypeAlias = Literal["forget01", "forget05", "forget10"]


class TofuTexts(Table):
    """Questions and answers of TOFU in its original files."""

    kind: Literal["tofu"]
    path: PathText  # the folder
    forget: TofuForget = "forget10"  # the rows that a request for what is flagged means
    retain: Count | None = None  # rows that stay, the first so many; None: all


class MuseTexts(Table):
    """A corpus of MUSE: the forgotten texts are flagged."""

    kind: Literal["muse"]
    path: PathText
    corpus: Literal["news", "books"] = "news"


class JsonlTexts(Table):
    """One JSON object a line: question and answer, or text."""

    kind: Literal["jsonl"]
    path: PathText
    forget: PathText | None = None  # a file of the same form: the rows that are flagged


TextData: TypeAlias = Annotated[TofuTexts | MuseTexts | JsonlTexts, Field(discriminator="kind")]


class TofuBenchmark(Table):
    """TOFU's sets of questions."""

    kind: Literal["tofu"]
    path: PathText
    forget: TofuForget = "forget10"


class MuseBenchmark(Table):
    """MUSE's sets of questions and texts."""

    kind: Literal["muse"]
    path: PathText
    corpus: Literal["news", "books"] = "news"


Benchmark: TypeAlias = Annotated[TofuBenchmark | MuseBenchmark, Field(discriminator="kind")]


class ModelSeat(Chair):
    """What the server's and a client's have: the base model, and where it is computed."""

    base: PathText
    device: Device = "cpu"


class LanguageServerSeat(ModelSeat):
    """The server's: the base model, and the benchmark that it measures with."""

    benchmark: Benchmark | None = None


class TextSeat(ModelSeat):
    """A client's: the base model, and its texts."""

    data: TextData
    # Further texts that everybody may know, learned beside the others so that they are not lost.
    public: JsonlTexts | None = None
