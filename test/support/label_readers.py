"""Reads exported labels with one of the tools that they are for, and prints what it has read.

label_readers.py TOOL FOLDER: the folder has `coco.json`, `yolo/`, and `flat/`, which is the same for one flat folder.
Prints JSON: {format: {picture: [[label, left, top, right, bottom], ...]}}, with boxes in whole pixels.
"""

import json
import os
import subprocess
import sys
import tempfile
from urllib.parse import unquote

tool, folder = sys.argv[1:]
coco, yolo = os.path.join(folder, "coco.json"), os.path.join(folder, "yolo")
data = os.path.join(yolo, "data.yaml")


def box(label, left, top, right, bottom):
    return [str(label), *(round(float(number)) for number in (left, top, right, bottom))]


def name(path):
    return os.path.relpath(os.path.realpath(path), os.path.realpath(os.path.join(yolo, "images")))


def pycocotools():
    from pycocotools.coco import COCO

    read = COCO(coco)
    read.createIndex()
    found = {}
    for image in read.loadImgs(read.getImgIds()):
        annotations = read.loadAnns(read.getAnnIds(imgIds=image["id"]))
        labels = [read.loadCats(annotation["category_id"])[0]["name"] for annotation in annotations]
        found[image["file_name"]] = [
            box(label, x, y, x + w, y + h)
            for label, (x, y, w, h) in zip(labels, (annotation["bbox"] for annotation in annotations))
        ]
    evaluated(read)
    return {"coco": found}


def evaluated(read):
    """The labels as truth and as detections: all of them match."""
    from pycocotools.cocoeval import COCOeval

    detections = read.loadRes([{**annotation, "score": 1} for annotation in read.dataset["annotations"]])
    judged = COCOeval(read, detections, "bbox")
    judged.evaluate()
    judged.accumulate()
    judged.summarize()
    assert judged.stats[0] > 0.999, judged.stats


def supervision():
    """YOLO by leaf folder: it does not look into folders within folders."""
    import supervision as sv

    images, labels = os.path.join(yolo, "images"), os.path.join(yolo, "labels")
    leaves = [root for root, _, files in os.walk(images, followlinks=True) if files]
    read = {
        "coco": [sv.DetectionDataset.from_coco(images_directory_path=images, annotations_path=coco)],
        "yolo": [
            sv.DetectionDataset.from_yolo(
                images_directory_path=leaf,
                annotations_directory_path=os.path.join(labels, os.path.relpath(leaf, images)),
                data_yaml_path=data,
            )
            for leaf in leaves
        ],
    }
    return {
        kind: {
            name(path): [box(dataset.classes[c], *xyxy) for c, xyxy in zip(found.class_id, found.xyxy)]
            for dataset in datasets
            for path, _, found in dataset
        }
        for kind, datasets in read.items()
    }


def datumaro():
    """What CVAT reads COCO with."""
    import datumaro as dm
    from datumaro.components.annotation import AnnotationType

    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "annotations"))
        os.symlink(os.path.realpath(coco), os.path.join(root, "annotations", "instances_default.json"))
        os.symlink(os.path.realpath(os.path.join(yolo, "images")), os.path.join(root, "images"))
        dataset = dm.Dataset.import_from(root, "coco_instances")
        labels = dataset.categories()[AnnotationType.label]
        return {
            "coco": {
                name(item.media.path): [
                    box(labels[b.label].name, b.x, b.y, b.x + b.w, b.y + b.h) for b in item.annotations
                ]
                for item in dataset
            }
        }


def ultralytics():
    from ultralytics.data.dataset import YOLODataset
    from ultralytics.data.utils import check_det_dataset

    read = check_det_dataset(data)
    dataset = YOLODataset(img_path=read["train"], data=read, task="detect", augment=False)
    found = {}
    for label in dataset.labels:
        height, width = label["shape"]
        found[name(label["im_file"])] = [
            box(
                read["names"][int(c[0])],
                (x - w / 2) * width,
                (y - h / 2) * height,
                (x + w / 2) * width,
                (y + h / 2) * height,
            )
            for c, (x, y, w, h) in zip(label["cls"], label["bboxes"])
        ]
    return {"yolo": found}


def fiftyone():
    """Its importers alone: a data set of FiftyOne needs MongoDB."""
    from fiftyone.utils.coco import COCODetectionDatasetImporter
    from fiftyone.utils.yolo import YOLOv5DatasetImporter

    images = os.path.join(yolo, "images")

    def read(importer):
        found = {}
        with importer:
            for path, metadata, labels in importer:
                w, h = size(path)
                detections = labels.detections if labels else []
                found[name(path)] = [
                    box(d.label, x * w, y * h, (x + bw) * w, (y + bh) * h)
                    for d in detections
                    for x, y, bw, bh in [d.bounding_box]
                ]
        return found

    return {
        "coco": read(COCODetectionDatasetImporter(data_path=images, labels_path=coco, label_types="detections")),
        "yolo": read(YOLOv5DatasetImporter(yolo, yaml_path="data.yaml", split="train")),
    }


def size(path):
    from PIL import Image, ImageOps

    with Image.open(path) as image:
        return ImageOps.exif_transpose(image).size


def label_studio_converter():
    """Of YOLO it reads one flat folder: the test has a copy of such a one."""

    def read(kind, source, *more):
        with tempfile.TemporaryDirectory() as root:
            out = os.path.join(root, "tasks.json")
            command = [os.path.join(os.path.dirname(sys.executable), "label-studio-converter"), "import", kind]
            subprocess.run([*command, "-i", source, "-o", out, *more], check=True, stdout=subprocess.DEVNULL)
            with open(out) as file:
                tasks = json.load(file)
        found = {}
        for task in tasks:
            boxes = []
            for annotation in task.get("annotations", []):
                for part in annotation["result"]:
                    value, w, h = part["value"], part["original_width"] / 100, part["original_height"] / 100
                    left, top = value["x"] * w, value["y"] * h
                    label = value["rectanglelabels"][0]
                    boxes.append(box(label, left, top, left + value["width"] * w, top + value["height"] * h))
            found[unquote(task["data"]["image"].split("?d=", 1)[1]).removeprefix("/").removeprefix("images/")] = boxes
        return found

    return {"coco": read("coco", coco), "flat": read("yolo", os.path.join(folder, "flat"), "--image-ext", ".png,.jpg")}


print(json.dumps(globals()[tool]()))
