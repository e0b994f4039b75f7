"""The environment comes before the config file, and a wrong setting is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmachat import settings
from gemmachat.errors import NotFoundError, UsageError


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the config file would be; nothing is set."""
    monkeypatch.delenv(settings.MODELS_VARIABLE, raising=False)
    monkeypatch.delenv(settings.MODEL_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "config" / "gemmachat").mkdir(parents=True)
    return tmp_path / "config" / "gemmachat" / "config.toml"


def test_without_settings_models_lie_in_the_users_data_folder(config: Path, tmp_path: Path) -> None:
    assert settings.models_folder() == tmp_path / "data" / "gemmachat" / "models"
    assert settings.default_model() is None


def test_environment_comes_before_the_config_file(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config.write_text('model = "e2b"\nmodels_folder = "/data/models"\n')
    assert settings.models_folder() == Path("/data/models")
    assert settings.default_model() == "e2b"
    monkeypatch.setenv("GEMMACHAT_MODELS", "~/mine")
    monkeypatch.setenv("GEMMACHAT_MODEL", "e4b")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings.models_folder() == tmp_path / "mine"
    assert settings.default_model() == "e4b"


def test_relative_folder_in_the_environment_is_that_of_the_shell(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMMACHAT_MODELS", "models")
    assert settings.models_folder() == tmp_path / "models"


def test_relative_platform_folders_count_as_unset(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = settings.models_folder()
    assert folder.is_relative_to(tmp_path)
    assert folder.parts[-2:] == ("gemmachat", "models")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model = ", "is not valid TOML"),
        (f"model = {'1' * 5000}", "is not valid TOML"),
        ("model = 1", "model must be a text in quotes"),
        ('model = ""', "model must be a text in quotes"),
        ('models = "x"', "unknown key 'models': model and models_folder are known"),
        ('models_folder = "x/y"', "models_folder must be an absolute path, not 'x/y'"),
        ('models_folder = "/x\\u0000"', "models_folder must be a text"),
    ],
)
def test_wrong_config_is_one_sentence_that_names_the_file(
    config: Path, text: str, said: str
) -> None:
    config.write_text(text)
    with pytest.raises(UsageError, match=said) as error:
        settings.models_folder()
    assert str(config) in str(error.value)


def test_config_that_is_no_text_is_refused(config: Path) -> None:
    config.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not valid TOML"):
        settings.read_config()


def test_user_without_a_home_is_told_which_variable_helps(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "nowhere")
    assert settings.default_model() is None
    with pytest.raises(NotFoundError, match="GEMMACHAT_MODELS"):
        settings.models_folder()
