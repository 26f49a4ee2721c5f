"""Party settings in the LLM mode: the folder of the base model, and the files with the texts."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from configs.party_settings import Device, PartySettingsBase
from configs.table import ConfigTable, Count, PathText

TofuForget: TypeAlias = Literal["forget01", "forget05", "forget10"]


class TofuTexts(ConfigTable):
    """The questions and answers of TOFU, read from its original files."""

    kind: Literal["tofu"]
    path: PathText  # folder of the files
    forget: TofuForget = "forget10"  # split whose rows are flagged for requests
    # Number of remaining rows, taken from the beginning of the file; absent: all.
    retain: Count | None = None


class MuseTexts(ConfigTable):
    """A corpus of MUSE, in which the texts to forget are flagged."""

    kind: Literal["muse"]
    path: PathText  # folder of the files
    corpus: Literal["news", "books"] = "news"  # corpus of MUSE


class JsonlTexts(ConfigTable):
    """One JSON object per line, with the keys question and answer, or with the key text."""

    kind: Literal["jsonl"]
    path: PathText
    # File in the same format with the flagged rows, which requests can forget.
    forget: PathText | None = None


TextData: TypeAlias = Annotated[TofuTexts | MuseTexts | JsonlTexts, Field(discriminator="kind")]


class TofuBenchmark(ConfigTable):
    """Questions of the TOFU benchmark, for measurements by the server."""

    kind: Literal["tofu"]
    path: PathText  # folder of the files
    forget: TofuForget = "forget10"  # split to forget; the same as in the clients' data


class MuseBenchmark(ConfigTable):
    """Questions and texts of the MUSE benchmark, for measurements by the server."""

    kind: Literal["muse"]
    path: PathText  # folder of the files
    corpus: Literal["news", "books"] = "news"  # corpus; the same as in the clients' data


Benchmark: TypeAlias = Annotated[TofuBenchmark | MuseBenchmark, Field(discriminator="kind")]


class ModelPartySettings(PartySettingsBase):
    """Settings of a party of the LLM mode: the base model, and the device."""

    base: PathText  # folder of the base model
    device: Device = "cpu"  # device of the model: cpu, cuda or cuda:NUMBER


class LanguageServerSettings(ModelPartySettings):
    """Settings of the server in the LLM mode."""

    benchmark: Benchmark | None = None  # files of the benchmark that the agreement names

    def check_inline(
        self, agreement: Any, name: str, inline: Mapping[str, PartySettingsBase]
    ) -> None:
        """Check that the benchmark is about the texts that the clients forget.

        Args:
            agreement: the agreement.
            name: the server.
            inline: the settings of all parties in the file, by party name.

        Raises:
            ValueError: the benchmark is about other texts.
        """
        if agreement.evaluation.benchmark == "none" or self.benchmark is None:
            return
        for client, each in inline.items():
            data = each.data if isinstance(each, LanguageClientSettings) else None
            if isinstance(data, TofuTexts | MuseTexts) and data.kind == self.benchmark.kind:
                field = "forget" if data.kind == "tofu" else "corpus"
                theirs, ours = getattr(data, field), getattr(self.benchmark, field)
                if theirs != ours:
                    raise ValueError(
                        f"settings.{client}.data.{field} is {theirs!r}, and settings.{name}."
                        f"benchmark.{field} is {ours!r}: the benchmark would measure other texts "
                        "than those that are forgotten; give both the same value"
                    )


class LanguageClientSettings(ModelPartySettings):
    """Settings of a client in the LLM mode."""

    data: TextData  # texts of the client
    # Public texts for training, besides the client's texts; absent: none.
    public: JsonlTexts | None = None
